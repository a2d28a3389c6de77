"""Checks of a model's files, and what can be read from them without torch."""
