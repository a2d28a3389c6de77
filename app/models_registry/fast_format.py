"""The format of weights that steps are fastest with on this machine, as far as it is known without torch."""

import platform
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from app.compilers import Which, find_compiler
from app.quantisation import Quantisation

X86 = ("x86_64", "AMD64")


def fast_quantisation(
    gpus: Sequence[str],
    has_package: Callable[[str], object] = find_spec,
    which: Which = shutil.which,
    system: tuple[str, str] | None = None,
) -> Quantisation:
    """ "int8" where our kernels for it can be compiled and nothing is faster, else "none".

    That is an x86 CPU under Linux: docs/benchmarks.md, "int8, per row"."""
    name, machine = system or (platform.system(), platform.machine())
    if gpus or name != "Linux" or machine not in X86 or not has_package("torchao"):
        return "none"
    return "int8" if find_compiler(which) else "none"
