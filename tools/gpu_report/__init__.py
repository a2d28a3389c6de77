"""Measures what a CUDA GPU does: correctness, attention, steps, quantised weights and replies."""
