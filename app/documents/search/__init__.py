"""Passages found by their words."""
