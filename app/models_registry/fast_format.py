"""Which quantisation makes steps fastest on this machine, found without torch."""

import platform
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from app.system.programs import Which, find_compiler, find_program
from app.values.quantisation import Quantisation

X86 = ("x86_64", "AMD64")


def fast_quantisation(
    gpus: Sequence[str],
    has_package: Callable[[str], object] = find_spec,
    which: Which = find_program,
    system: tuple[str, str] | None = None,
) -> Quantisation:
    """ "int8" where it is measured to be fastest, else "none".

    That is an x86 CPU under Linux, with a compiler for our kernels: docs/notes, "int8, per row"."""
    name, machine = system or (platform.system(), platform.machine())
    if gpus or name != "Linux" or machine not in X86 or not has_package("torchao"):
        return "none"
    return "int8" if find_compiler(which) else "none"
