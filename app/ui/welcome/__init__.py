"""The view of an empty chat."""
