"""Fused, packed and quantised layers, which replace a model's layers after trials."""
