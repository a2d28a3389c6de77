"""The kernels that draw tokens for the offline compiler. Run by `test_sampling_triton.py`, not interpreted."""

import sys

import torch

from app.engine.sampling.sampling import MOST_LIKELY, SETTINGS
from app.engine.sampling.sampling_triton import choose_on_gpu
from tests.engine.offline_compiler import Launch, main


def launch_of(dtype: torch.dtype, vocabulary: int = 128_256) -> Launch:
    """Three rows with a vocabulary such as Llama 3's."""

    def launch(_major: int, _shared_memory: int) -> None:
        keys, settings = torch.zeros(3, dtype=torch.int64), torch.zeros(SETTINGS, dtype=torch.float64)
        choose_on_gpu(
            torch.zeros((3, vocabulary), dtype=dtype), keys, settings, torch.zeros((3, 2 * MOST_LIKELY + 2))
        )

    return launch


LAUNCHES: dict[str, Launch] = {
    "float32": launch_of(torch.float32),
    "bfloat16": launch_of(torch.bfloat16),
    "Gemma": launch_of(torch.bfloat16, 262_144),
}

if __name__ == "__main__":
    main(LAUNCHES, ["Gemma"], sys.argv[1:])
