"""Kernels for CPUs, in C: compiled once by the machine's own compiler, if there is one, and declared here."""

from ctypes import CDLL, c_float, c_int32, c_int64, c_void_p
from pathlib import Path

from app.engine.machine.compiling import Compiled, Source, cache_folder, compiled, once

SOURCE = Source(
    Path(__file__).with_name("kernels.c"), ("-fopenmp",), otherwise="Weights of 8 bits take longer on the CPU"
)

_P, _N, _I, _F = c_void_p, c_int64, c_int32, c_float
ARGUMENTS = {
    "int8_linear": (_P, _N, _N, _P, _P, _N, _I, _P, _P, _P, _I),
    "rms_norm": (_P, _P, _P, _N, _N, _F, _I, _P, _P),
    "gated_activation": (_P, _N, _P, _N, _N, _N, _I, _P, _I),
    "rotate": (_P, _N, _N, _P, _P, _N, _N, _N, _N, _P),
    "attend": (_P, _N, _N, _P, _N, _P, _N, _N, _N, _N, _N, _N, _N, _F, _P, _P, _P, _P, _I),
    "decoder_layer": (_P, _P, _N, _P, _P, _N, _P, _N, _P, _N, _N, _P, _P, _P, _I),
}
"""The C functions and the types of their arguments: pointers, sizes, small integers, floats."""


def declared(library: CDLL) -> CDLL:
    """Declare the argument types of the library's functions, and return the library."""
    for name, types in ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, None
    library.decoder_layer_room.argtypes, library.decoder_layer_room.restype = (_P, _N, _N), _N
    library.row_paths.argtypes, library.row_paths.restype = (_N, _N, _N, _P, _P), _I
    return library


@once
def compiled_kernels() -> Compiled[CDLL]:
    """Compile `kernels.c` once; return the library, or None and a note why not."""
    library, note = compiled(SOURCE, CDLL, cache_folder())
    return Compiled(library and declared(library), note)


def cpu_kernels() -> CDLL | None:
    """Return the compiled kernels; None if they cannot be compiled."""
    return compiled_kernels().library
