"""Fused, packed and quantised layers, which replace a model's layers after trials.

A fused layer launches far fewer kernels than torch's layer. `fuse.py` chooses the kernels of this machine;
`replacements.py` compares each fused module with the module that it would replace.
"""
