"""The product kernel's launches on a card of paper. Run by `test_compiles_for_cards.py`, not interpreted."""

import sys

import torch

from app.engine.products.fixed import FixedProduct
from app.engine.products.tiles import Card
from tests.engine.paper_card import MULTIPROCESSORS, Launch, main

CPU = torch.device("cpu")


def multiplies(outs: int, ins: int, rows: int, dtype: torch.dtype = torch.bfloat16) -> Launch:
    """So many rows by a weight with a bias."""

    def launch(major: int, shared_memory: int) -> None:
        product = FixedProduct(Card(major, MULTIPROCESSORS, shared_memory), CPU)
        product(
            torch.zeros((rows, ins), dtype=dtype), torch.zeros((outs, ins), dtype=dtype), torch.zeros(outs)
        )

    return launch


LAUNCHES: dict[str, Launch] = {
    "64 rows": multiplies(1024, 2048, 64),
    "128 rows": multiplies(1024, 2048, 128),
    "128 rows, K whole": multiplies(16_384, 1024, 128),
}

if __name__ == "__main__":
    main(LAUNCHES, sys.argv[1:])
