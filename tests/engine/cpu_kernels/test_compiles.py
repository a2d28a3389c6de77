"""Our C compiles where there is a compiler: without this test a mistake in it would only skip the others."""

import platform

import pytest

from app.engine.cpu_kernels import compiled_kernels, packed_kernels
from app.engine.lookahead.native_drafter import compiled_drafter
from app.system.programs import find_compiler, find_program


@pytest.mark.skipif(platform.system() != "Linux", reason="our C is compiled on Linux")
@pytest.mark.skipif(find_compiler(find_program) is None, reason="there is no C compiler here")
def test_all_our_c_compiles() -> None:
    assert (compiled_kernels().note, compiled_drafter().note) == ("", "")
    assert packed_kernels() is not None
