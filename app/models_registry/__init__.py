"""Finds models on this machine and on the hub, judges whether they fit, and fetches and deletes them."""
