"""Finds models on this machine and on the hub, judges whether they fit, fetches and deletes them.

It does not import torch: models are judged by their files alone."""
