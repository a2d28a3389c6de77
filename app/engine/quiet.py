"""Libraries that log about themselves while they are imported.

transformers imports torchao wherever it is installed, asked or not; on a machine without CUDA that warns of kernels
which are not for it. What a person must know comes as events.
"""

import logging

CHATTY = ("torchao", "torch.utils._pytree")


def quiet_imports() -> None:
    """Let these loggers speak of errors alone. To be called before torch is imported."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
