"""Compiles `kernels.c` with the machine's C compiler, once for each processor, and loads the result.

The library lies in the user's cache folder, named after all that it was made from. It is linked without an OpenMP
runtime of its own: it finds the one that torch has loaded, so that both share threads.
"""

import logging
import platform
import shutil
import subprocess
from collections.abc import Callable
from ctypes import CDLL
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from app.engine.cpu_kernels.launching import declared
from app.errors import first_line

log = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("kernels.c")
COMPILERS = ("cc", "gcc", "clang")
# Every value is rounded where the source says so: a row must have the same bits whatever is computed beside it.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC")
LINK = ("-shared", "-Wl,-z,now", "-lm")
OPENMP = "-fopenmp"
SECONDS = 60
"""How long the compiler may take; it takes two."""


@cache
def cpu_kernels() -> CDLL | None:
    """The compiled kernels; None where they cannot be had, and the log says why."""
    import platformdirs  # imported here: measuring machines do without it

    folder = Path(platformdirs.user_cache_dir("foresight", appauthor=False)) / "kernels"
    return load_kernels(folder)


def load_kernels(folder: Path, which: Callable[[str], str | None] = shutil.which) -> CDLL | None:
    """The kernels from this folder, compiled into it first where they are missing."""
    if platform.system() != "Linux":  # elsewhere torch's OpenMP runtime is not found by name
        return None
    compiler = next(filter(None, map(which, COMPILERS)), None)
    if compiler is None:
        log.info("the CPU keeps torch's kernels: no C compiler was found")
        return None
    try:
        file = folder / f"{_digest(compiler)}.so"
        if not file.exists():
            _compile(compiler, file)
        return declared(CDLL(str(file)))
    except subprocess.CalledProcessError as error:
        log.info("the CPU keeps torch's kernels: the compiler failed: %s", error.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        log.info("the CPU keeps torch's kernels: %s", first_line(error))
    return None


def _digest(compiler: str) -> str:
    """What the library depends on: its source, the compiler, the processor, and torch's OpenMP runtime."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    made_from = (
        SOURCE.read_text("utf-8"), str((*FLAGS, *LINK)), str(Path(compiler).resolve()),
        str(Path(compiler).stat().st_mtime), str(sorted(capabilities.items())), platform.machine(),
    )  # fmt: skip
    return sha256("\n".join(made_from).encode()).hexdigest()[:16]


def _compile(compiler: str, file: Path) -> None:
    """Make the library, whole or not at all: another process may be making it, too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent) as folder:
        compiled, linked = Path(folder) / "kernels.o", Path(folder) / "kernels.so"
        _run(compiler, *FLAGS, OPENMP, "-c", str(SOURCE), "-o", str(compiled))
        _run(compiler, str(compiled), *LINK, "-o", str(linked))
        linked.replace(file)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
