"""How the engine is imported, and torch with it: not before there is work, so that a window can open at once."""

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.engine.session.session import Session

_CHATTY = ("torchao", "torch.utils._pytree", "accelerate.big_modeling")
"""Loggers that warn of missing kernels on a machine without CUDA, as transformers imports torchao where it can, and
of weights in main memory, where they were wanted."""


def import_session() -> type["Session"]:
    """The class that answers requests. Where C is not compiled yet, that is done while transformers is imported."""
    quiet_imports()
    from app.engine.cpu_kernels.loading import compiled_kernels
    from app.engine.lookahead.native_drafter import compiled_drafter
    from app.engine.machine.compiling import compile_ahead

    compile_ahead(compiled_kernels, compiled_drafter)
    from app.engine.session.session import Session

    return Session


def quiet_imports() -> None:
    """Let these loggers speak of errors alone. To be called before torch is imported."""
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
