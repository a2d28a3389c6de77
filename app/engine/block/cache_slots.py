"""Where a layer writes a block in its cache."""

from typing import NamedTuple

from torch import Tensor


class CacheSlots(NamedTuple):
    """In its buffers [1, heads, capacity, size], behind the first `begin` rows.

    A recorded step writes to `places` [T] instead, which it reads from the device."""

    keys: Tensor
    values: Tensor
    begin: int
    places: Tensor | None

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Each [1, heads, T, size]."""
        for buffer, states in ((self.keys, keys), (self.values, values)):
            if self.places is None:
                buffer[:, :, self.begin : self.begin + states.shape[2]] = states
            else:
                buffer.index_copy_(2, self.places, states)

    def up_to(self, rows: int) -> tuple[Tensor, Tensor]:
        """Committed rows and so many of the block; of a recorded step the whole buffers."""
        if self.places is not None:
            return self.keys, self.values
        return self.keys[:, :, : self.begin + rows], self.values[:, :, : self.begin + rows]
