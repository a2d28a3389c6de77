"""The layers of a model: fused, quantised, and compared with the layers that they replace.

Each part of a fused layer is one kernel, for which torch launches many. `fuse.py` chooses the kernels of this
machine; `replacements.py` compares each fused module with the module that it would replace.
"""
