"""The private names of torch that we use: each is there in the torch that is installed."""

import ast
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import torch

APP = Path(__file__).parents[3] / "app"
ONLY_WITH_CUDA = ("torch._C._cuda_", "torch.cuda._")


def dotted(node: ast.expr) -> str:
    """The name that an expression such as torch.cuda.Event spells; "" if it is another expression."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def names_in(code: ast.AST) -> Iterator[str]:
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute):
            yield dotted(node)
        elif isinstance(node, ast.Call) and dotted(node.func) == "getattr":
            owner, name = node.args[:2]
            yield f"{dotted(owner)}.{name.value}" if isinstance(name, ast.Constant) else ""
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def is_private(name: str) -> bool:
    return name.startswith("torch.") and any(
        part.startswith("_") and not part.startswith("__") for part in name.split(".")
    )


def test_torch_has_every_private_name_that_we_use() -> None:
    codes = (ast.parse(path.read_text(encoding="utf-8")) for path in APP.rglob("*.py"))
    private = {name for code in codes for name in names_in(code) if is_private(name)}
    assert {"torch.cuda._sleep", "torch._C._cuda_releasePool", "torch.ops.aten._weight_int8pack_mm"} < private
    for name in sorted(private):
        if torch.version.cuda is not None or not name.startswith(ONLY_WITH_CUDA):
            reduce(getattr, name.split(".")[1:], torch)
