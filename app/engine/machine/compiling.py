"""Compiles C with the machine's compiler for its processor, and keeps the libraries.

Libraries are linked without an OpenMP runtime, so that they use the runtime that torch has loaded, and share its
threads.
"""

import logging
import os
import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from app.errors import first_line
from app.system.files import replacing
from app.system.programs import Which, find_compiler, find_program, settled

log = logging.getLogger(__name__)

# The compiler must not fuse operations, so that each value is rounded where the source rounds it. A row's
# results are then bitwise identical whatever other rows are computed in the same call.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fPIC")
LINK = ("-shared", "-Wl,-z,now", "-lm")
SECONDS = 300
"""Maximum seconds of a run of the compiler. The longest source takes about 10 seconds, minutes under load."""

NO_COMPILER = "no C compiler was found: install gcc, then restart Foresight"

Library = TypeVar("Library")


@dataclass(frozen=True, slots=True)
class Source:
    """A C file, and the compiler's flags in addition to FLAGS. `otherwise` is a clause about what is worse without
    the library."""

    file: Path
    flags: Sequence[str]
    otherwise: str

    def texts(self) -> list[str]:
        """Read the file, then the headers in its folder."""
        return [file.read_text("utf-8") for file in (self.file, *sorted(self.file.parent.glob("*.h")))]


class Compiled(NamedTuple, Generic[Library]):
    """A library, or None. `note` says why there is none and what to do; "" with a library, or if nothing helps."""

    library: Library | None
    note: str = ""


def cache_folder() -> Path:
    """Return the folder in which libraries are kept."""
    try:
        import platformdirs
    except ImportError:  # not needed to measure a GPU (tools/gpu_report)
        return Path.home() / ".cache" / "foresight" / "kernels"
    return Path(platformdirs.user_cache_dir("foresight", appauthor=False)) / "kernels"


def once(find: Callable[[], Compiled[Library]]) -> Callable[[], Compiled[Library]]:
    """Wrap `find` so that only the first call runs it; concurrent calls wait for the result."""
    lock, found = Lock(), cache(find)

    @wraps(find)
    def find_once() -> Compiled[Library]:
        with lock:
            return found()

    return find_once


def compile_ahead(*finders: Callable[[], object]) -> None:
    """Start compiling libraries, each on a thread of its own, without waiting for them."""
    for find in finders:
        Thread(target=find, name="compiler").start()


def compiled(
    source: Source, load: Callable[[str], Library], folder: Path, which: Which = find_program
) -> Compiled[Library]:
    """Load the library from this folder; compile it first if needed. The `note` gives the reason of a failure."""
    if platform.system() != "Linux":  # elsewhere torch's OpenMP runtime is not found by name
        return Compiled(None)
    compiler = find_compiler(which)
    if compiler is None:
        return _refused(source, NO_COMPILER)
    try:
        file = folder / f"{_digest(source, compiler)}.so"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            # The file is put in place by one move, because another process may be making it, too.
            with TemporaryDirectory(dir=folder) as inside, replacing(file) as linked:
                made, flags = str(Path(inside) / "library.o"), (*FLAGS, *source.flags)
                _run(inside, compiler, *flags, "-c", str(source.file), "-o", made)
                _run(inside, compiler, made, *LINK, "-o", str(linked))
        return Compiled(load(str(file)))
    except subprocess.CalledProcessError as error:
        log.info("%s said: %s", compiler, error.stderr)
        return _refused(source, f"{compiler} failed: install gcc and libc6-dev, then restart Foresight")
    except (OSError, subprocess.SubprocessError) as error:
        reason = first_line(error)
        return _refused(source, f"its library could not be made ({reason}): check {folder} and {compiler}")


def processor_capabilities() -> dict[str, Any]:
    """Return torch's report about the processor; {} with the older supported releases of torch."""
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return capabilities


def _refused(source: Source, reason: str) -> Compiled[Any]:
    note = f"{source.otherwise}, because {reason}."
    log.info(note)
    return Compiled(None, note)


def _digest(source: Source, compiler: str) -> str:
    """Return a digest of what the library depends on: source, headers, flags, compiler and processor."""
    made_from = (
        *source.texts(), str((*FLAGS, *LINK, *source.flags)),
        str(Path(compiler).resolve()), str(Path(compiler).stat().st_mtime),
        str(sorted(processor_capabilities().items())), platform.machine(),
    )  # fmt: skip
    return sha256("\n".join(made_from).encode()).hexdigest()[:16]


def _run(folder: str, *command: str) -> None:
    """Run a command in this folder, which has no headers or programs that could be used instead of the system's."""
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=folder,
        env=settled(os.environ),
    )
