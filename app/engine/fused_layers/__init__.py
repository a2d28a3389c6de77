"""What a layer does between its matrix products, in one kernel each where torch launches many.

`kernels.py` are the kernels, `launching.py` launches them behind the signature of `signature.py`, `modules.py` take
the places of a model's norms, gated MLPs, attentions and layers, `replacements.py` tries each of them on the module
whose place it would take, and `selector.py` says whether this machine can have them.
"""
