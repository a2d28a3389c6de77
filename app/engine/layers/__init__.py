"""The layers of a model: fused, quantised, and checked against those that they replace.

A fused layer does in one kernel each what torch launches many for. `fuse.py` chooses the kernels of this machine,
`replacements.py` tries each fused module on the module whose place it would take.
"""
