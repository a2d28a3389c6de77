"""Finds models on this machine and on the hub, judges whether they fit, fetches and deletes them."""
