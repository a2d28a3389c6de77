"""What is asked of this machine: on which processors weights of 8 bits are fastest."""

import pytest

from app.system.machine import multiplies_int8_fast

LINUX = ("Linux", "x86_64")


def has(*names: str) -> object:
    return lambda name: name if name in names else None


def is_fast(compiler: str = "gcc", system: object = LINUX) -> bool:
    return multiplies_int8_fast(has(compiler), system)  # type: ignore[arg-type]


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_int8_is_fastest_on_an_x86_cpu_with_a_compiler(compiler: str) -> None:
    assert is_fast(compiler=compiler)


def test_elsewhere_int8_is_not_known_to_be_faster() -> None:
    assert not is_fast(compiler="")
    for system in (("Linux", "aarch64"), ("Darwin", "arm64"), ("Windows", "AMD64")):
        assert not is_fast(system=system)
