"""Imports Gradio in half the time: while it is imported it writes a .pyi file beside each of its components.

It parses its own sources and renders a template for each of them, 2.5 seconds of a processor at every import.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

META = "gradio.component_meta"


class WithoutStubs(MetaPathFinder, Loader):
    """Finds the module that writes those files, and takes the writing out of it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as it lies on the disk, run by this loader."""
        found = PathFinder.find_spec(name, path) if name == META else None
        if not found or not found.origin:
            return None
        self._loader = found.loader
        return importlib.util.spec_from_file_location(name, found.origin, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run it, and replace the function that writes."""
        assert self._loader
        self._loader.exec_module(module)
        assert hasattr(module, "create_or_modify_pyi")
        vars(module)["create_or_modify_pyi"] = lambda *_: None


def install() -> None:
    """Have later imports of Gradio in this process go without those files."""
    sys.meta_path.insert(0, WithoutStubs())
