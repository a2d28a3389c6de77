"""Matrix products whose rows round the same whatever is computed with them, for the steady passes of a model.

`kernels.py` is the kernel, `tiles.py` the shape of its work, `fixed.py` launches it in the place of a Linear,
`twin.py` makes the second set of modules that steady passes run, and `choosing.py` says whether this machine can.
"""
