"""A Linear of 8 bits by our own kernel. Needs triton: imported only where it is tried."""

from torch import Tensor

from app.engine.layers.int8_kernel_triton import int8_product
from app.engine.layers.quantised_layers import TiledInt8Linear

FEW_ROWS = 128
"""Beyond, a prompt's rows share the spreading of a tile, and the library's product is faster."""


class TritonInt8Linear(TiledInt8Linear):
    """The weight is read as it lies for few rows."""

    def multiply(self, states: Tensor) -> Tensor:
        """In one go, or tile by tile."""
        if len(states) > FEW_ROWS:
            return super().multiply(states)
        return int8_product(states, self.values, self.scale.view(-1))
