"""An offline compiler: triton compiles and links kernels for a card that is not there, and launching does nothing.

So what a card would refuse (a shape, shared memory) and what would be slow on it (spilled registers, products
without matrix units) is seen without one. Kernels are compiled in a process of their own, because triton interprets
them in this one:

    compiled("tests.engine.real_shapes", [(9, 0), (12, 0)], folder, "default")
    in the child: print_compiled(launches_of, sys.argv[1:])
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

SHARED_MEMORY = {
    (7, 5): 65_536, (8, 0): 166_912, (8, 6): 101_376, (8, 9): 101_376, (9, 0): 232_448, (10, 0): 232_448,
    (12, 0): 101_376,
}  # fmt: skip
"""Bytes that a program may have, by compute capability."""

LAPTOP, HOPPER = (8, 6), (9, 0)

MULTIPROCESSORS = 132

Card = tuple[int, int]
"""A card's compute capability."""

Launch = Callable[[int, int], None]
"""Launches kernels for a card of this major compute capability and this much shared memory."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel: the launch it is of, its spilled bytes a thread, shared memory, matrix instructions and sums."""

    launch: str
    kernel: str
    spilled: int
    shared: int
    instructions: tuple[str, ...]
    sums: tuple[str, ...]  # each dot and float reduction with its layouts: the order in which it adds


def compiled(module: str, cards: Sequence[Card], folder: Path, launches: str) -> dict[Card, list[Compiled]]:
    """What the module's launches ("default" or "all") are compiled to; the folder keeps triton's files.

    Skips where triton cannot compile."""
    triton = pytest.importorskip("triton", reason="triton is not installed")
    if not (_tools(triton) / "ptxas").exists():
        pytest.skip("triton has no compiler for cards here")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    child = subprocess.run(
        [sys.executable, "-m", module, launches, *(f"{major}.{minor}" for major, minor in cards)],
        env=environment | {"TRITON_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    found = json.loads(child.stdout.splitlines()[-1])
    return {card: [_from_json(each) for each in of_card] for card, of_card in zip(cards, found, strict=True)}


def _from_json(found: dict[str, Any]) -> Compiled:
    return Compiled(**{**found, "instructions": tuple(found["instructions"]), "sums": tuple(found["sums"])})


def print_compiled(launches_of: Callable[[Card, str], dict[str, Launch]], arguments: Sequence[str]) -> None:
    """In the child: run "default" or "all" launches for each card, and print what they were compiled to."""
    which, *cards = arguments
    found = []
    for major, minor in (map(int, card.split(".")) for card in cards):
        found.append(_compiled_for((major, minor), launches_of((major, minor), which)))
    print(json.dumps(found))


def _compiled_for(capability: Card, launches: dict[str, Launch]) -> list[dict[str, Any]]:
    import triton

    card = OfflineDriver(capability)
    triton.runtime.driver.set_active(card)
    for name, launch in launches.items():
        card.launch = name
        launch(capability[0], SHARED_MEMORY[capability])
    return [asdict(each) for each in card.found]


class OfflineDriver:
    """What triton asks of a driver. It is its own utilities; its launches are empty."""

    def __init__(self, capability: Card) -> None:
        import triton
        from triton.backends.compiler import GPUTarget

        self.launch, self.found, self.utils = "", list[Compiled](), self
        self._shared = SHARED_MEMORY[capability]
        self._number = 10 * capability[0] + capability[1]
        self._target = GPUTarget("cuda", self._number, 32)
        self._tools = _tools(triton)
        triton.knobs.compilation.listener = self._compiled

    def get_current_target(self) -> object:
        return self._target

    def get_current_device(self) -> int:
        return self._number  # triton keeps what it has compiled by the device's number

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_device_properties(self, _device: int) -> dict[str, int]:
        return {"max_shared_mem": self._shared, "multiprocessor_count": MULTIPROCESSORS, "warpSize": 32}

    def load_binary(self, *_program: object) -> tuple[object, int, int, int, int]:
        return object(), 0, 0, 0, 1024

    def launcher_cls(self, _source: object, _metadata: object) -> Callable[..., None]:
        return _launch

    def _compiled(
        self, *, src: Any, metadata: Any, metadata_group: dict[str, str], **_others: object
    ) -> None:
        files = {Path(path).suffix: Path(path) for path in metadata_group.values()}
        usage = self._said("-res-usage", files[".cubin"])
        stack = re.search(r"STACK:(\d+)", usage)
        assert stack, usage
        self.found.append(
            Compiled(
                self.launch,
                src.name,
                int(stack[1]),
                metadata["shared"],
                tuple(
                    sorted(
                        set(
                            re.findall(
                                r"(?<!\.)\b[A-Z]*MMA\b(?:\.\w+)?", self._said("-sass", files[".cubin"])
                            )
                        )
                    )
                ),
                sums_of(files[".ttgir"].read_text()),
            )
        )

    def _said(self, what: str, binary: Path) -> str:
        asked = [str(self._tools / "cuobjdump"), what, str(binary)]
        said: str = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        return said


def _launch(*grid: Any) -> None:
    assert all(0 < size < limit for size, limit in zip(grid[:3], (1 << 31, 1 << 16, 1 << 16), strict=True))


def _tools(triton: Any) -> Path:
    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def sums_of(code: str) -> tuple[str, ...]:
    """Each dot and each reduction of floats, with its layouts: what decides about the order of adding."""
    layouts = dict(re.findall(r"^(#\w+) = (#ttg\..*)$", code, re.MULTILINE))

    def seen(types: str) -> str:
        bare = re.sub(r" loc\(.*", "", types)
        return re.sub(r"#\w+(?!\.)\b", lambda name: layouts.get(name[0], name[0]), bare)

    lines = code.splitlines()
    dots = [
        seen(line.split(" : ", 1)[1])
        for line in lines
        if re.search(r"= (tt\.dot|ttng\.warp_group_dot|ttng\.tc_gen5_mma) ", line)
    ]
    reductions = [seen(line) for line in lines if re.match(r"\s*}\) : \(tensor<\w+xf32", line)]
    return (*sorted(set(dots)), *sorted(set(reductions)))
