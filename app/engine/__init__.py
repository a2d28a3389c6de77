"""The engine: one worker thread that owns the model. Importing this package does not import torch.

The package's folders are layers: each imports only those before it.

    machine → block → cpu_kernels → text → attention → sampling → runner → lookahead → drafters → layers →
        measuring → graphs → loading → embedding → parallel → session
"""

from app.engine.session.worker import Engine

__all__ = ["Engine"]
