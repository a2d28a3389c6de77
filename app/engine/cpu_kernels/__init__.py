"""Compiles the C kernels for CPUs with the machine's compiler, if there is one, and declares their functions."""

from collections.abc import Mapping
from ctypes import CDLL, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from app.engine.machine.compiling import Compiled, Source, cache_folder, compiled, once

SOURCE = Source(
    Path(__file__).with_name("kernels.c"), ("-fopenmp",), otherwise="Weights of 8 bits take longer on the CPU"
)

PACKED_SOURCE = Source(
    SOURCE.file, (*SOURCE.flags, "-DPACKED"), otherwise="GGUF files take more memory and time"
)
"""The same kernels with products of packed weights instead of 8-bit weights."""

_P, _N, _I, _F = c_void_p, c_int64, c_int32, c_float
INT8 = {"int8_linear": (_P, _N, _N, _P, _P, _N, _I, _P, _P, _P, _I)}
PACKED = {
    "packed_linear": (_P, _P, _N, _P, _P, _I),
    "packed_experts": (_P, _P, _P, _N, _N, _P, _P, _P, _I),
    "gated_experts": (_P, _P, _N, _P, _P, _N, _N, _I, _P, _P, _P, _P, _I),
    "packed_rows": (_P, _P, _N, _P),
    "pack_tiles": (_P, _I, _N, _N, _I, _I, _P),
}
ARGUMENTS = {
    "rms_norm": (_P, _P, _P, _N, _N, _F, _I, _P, _P),
    "gated_activation": (_P, _N, _P, _N, _N, _N, _I, _P, _I),
    "rotate": (_P, _N, _N, _P, _P, _N, _N, _N, _N, _P),
    "attend": (_P, _N, _N, _P, _N, _P, _N, _N, _N, _N, _N, _N, _N, _F, _P, _P, _P, _P, _I),
    "attention_layer": (_P, _P, _N, _P, _P, _N, _N, _P, _P, _P, _P, _I),
    "decoder_layers": (_P, _P, _N, _N, _P, _P, _N, _N, _P, _P, _P, _I),
}
"""C functions of both libraries, and the types of their arguments: pointers, sizes, small integers, floats."""

Arguments = Mapping[str, tuple[Any, ...]]


def declared(library: CDLL, products: Arguments = INT8) -> CDLL:
    """Declare the argument types of the library's functions, and return the library."""
    for name, types in {**ARGUMENTS, **products}.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, None
    library.decoder_layers_room.argtypes, library.decoder_layers_room.restype = (_P, _N, _N, _N), _N
    library.row_paths.argtypes, library.row_paths.restype = (_N, _N, _N, _P, _P), _I
    return library


@once
def compiled_kernels() -> Compiled[CDLL]:
    """Compile `kernels.c` at the first call; return the library, or None and a note that says why."""
    library, note = compiled(SOURCE, CDLL, cache_folder())
    return Compiled(library and declared(library), note)


def cpu_kernels() -> CDLL | None:
    """Return the compiled kernels, compiled at the first call; None if they cannot be compiled."""
    return compiled_kernels().library


@once
def _compiled_for_packed() -> Compiled[CDLL]:
    library, note = compiled(PACKED_SOURCE, CDLL, cache_folder())
    return Compiled(library and declared(library, PACKED), note)


def packed_kernels() -> CDLL | None:
    """Return the kernels for packed weights, compiled at the first call; None if they cannot be compiled."""
    return _compiled_for_packed().library
