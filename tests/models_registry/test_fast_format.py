"""In which format weights are fastest, by what a machine has."""

import pytest

from app.models_registry.fast_format import fast_quantisation

LINUX = ("Linux", "x86_64")


def has(*names: str) -> object:
    return lambda name: name if name in names else None


def found(
    gpus: tuple[str, ...] = (), package: str = "torchao", compiler: str = "gcc", system: object = LINUX
) -> str:
    return fast_quantisation(gpus, has(package), has(compiler), system)  # type: ignore[arg-type]


@pytest.mark.parametrize("compiler", ["cc", "gcc", "clang"])
def test_int8_is_fastest_on_an_x86_cpu_with_a_compiler_and_torchao(compiler: str) -> None:
    assert found(compiler=compiler) == "int8"


def test_elsewhere_no_quantisation_is_known_to_be_faster() -> None:
    assert found(gpus=("cuda:0",)) == "none"
    assert found(package="") == "none"
    assert found(compiler="") == "none"
    assert found(system=("Linux", "aarch64")) == "none"
    assert found(system=("Darwin", "arm64")) == "none"
    assert found(system=("Windows", "AMD64")) == "none"
