"""The kernel that draws tokens for the offline compiler. Run by `test_sampling_triton.py`, not interpreted."""

import sys

import torch

from app.engine.sampling.sampling_triton import draw_on_gpu
from tests.engine.offline_compiler import Launch, main


def launch_of(dtype: torch.dtype) -> Launch:
    """Three rows with the vocabulary of Llama 3."""

    def launch(_major: int, _shared_memory: int) -> None:
        draw_on_gpu(torch.zeros((3, 128_256), dtype=dtype), torch.zeros(3, dtype=torch.int64), 0.8, 0.1)

    return launch


LAUNCHES: dict[str, Launch] = {str(dtype): launch_of(dtype) for dtype in (torch.float32, torch.bfloat16)}

if __name__ == "__main__":
    main(LAUNCHES, [str(torch.bfloat16)], sys.argv[1:])
