"""The search for passages by their words."""
