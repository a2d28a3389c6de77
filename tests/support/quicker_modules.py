"""Imports some modules with changes that save processor time, in tests and in apps that tests start."""

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

QUICKER: dict[str, dict[str, Callable[[Any], Any]]] = {
    # While Gradio is imported, it writes a .pyi file beside each of its components, which takes 2.5 seconds.
    "gradio.component_meta": {"create_or_modify_pyi": lambda _: lambda *_: None},
    # Models are measured as briefly as possible when they are loaded, and not at all while they are idle.
    "app.engine.measuring.step_timing": {
        "ROUNDS": lambda _: (1, 1),
        "SECONDS": lambda _: 0.0,
        "QUESTION_SECONDS": lambda _: 0.0,
    },
    "app.engine.loading.model_measurements": {
        "SECONDS": lambda _: 0.0,
        "measure_first_successors": lambda measure: partial(measure, seconds=0.0),
    },
}
"""The names in each module that get another value, which is computed from the usual one."""


class QuickerLoader(Loader):
    """Loads a module as `loader` does, then changes its values."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        values = vars(module)
        values.update({name: change(values[name]) for name, change in QUICKER[module.__name__].items()})


class QuickerModules(MetaPathFinder):
    """Finds these modules of QUICKER."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name in self._names else None
        if found and found.loader:
            found.loader = QuickerLoader(found.loader)
        return found


def install(measures_briefly: bool = True) -> None:
    """Change the modules of QUICKER when they are imported from now on, or only Gradio's."""
    names = [name for name in QUICKER if measures_briefly or name.startswith("gradio.")]
    sys.meta_path.insert(0, QuickerModules(names))
