"""Measures what a CUDA card does: correctness, attention, steps, quantised weights and replies."""
