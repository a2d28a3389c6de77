"""Imports point one way, and what must stay in one place does.

    run.py → app.main → app.startup → {app.ui, app.commands} → app.api → app.conversation →
        {engine, models_registry, chats, documents, remote, tools} → database → system → values → errors

The six domains in braces do not know each other. Commands may also use the engine and the registry, and the API
the engine; the UI may not. The folders of the engine, of the registry and of the UI are layers as well.
Imports inside functions count like the others: laziness is no way around the direction.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.children import run_python

CHECKOUT = Path(__file__).parent.parent
SOURCES = sorted(
    path.relative_to(CHECKOUT)
    for place in ("app", "tools", "labs")
    for path in (CHECKOUT / place).rglob("*.py")
) + [Path(name) for name in ("run.py",) if (CHECKOUT / name).exists()]

BASE = {"app", "errors", "settings", "values", "system", "database"}
DOMAINS = {"engine", "models_registry", "chats", "documents", "remote", "tools"}
ALLOWED = {
    "run": {"main"},
    "main": {"ui", "startup", "commands", "desktop", "conversation", *DOMAINS, *BASE},
    "startup": {"ui", "commands", "api", "desktop", "conversation", *DOMAINS, *BASE},
    "desktop": {"desktop", *BASE},
    "commands": {"commands", "api", "web", "conversation", *DOMAINS, *BASE},
    "ui": {
        "ui",
        "api",
        "web",
        "conversation",
        "chats",
        "documents",
        "models_registry",
        "remote",
        "tools",
        *BASE,
    },
    "api": {"api", "web", "conversation", "engine", *BASE},
    "web": {"web", *BASE},
    "conversation": {"conversation", *DOMAINS, *BASE},
    **{part: {part, *BASE} for part in DOMAINS},
    "database": {"database", "system", "values", "settings", "errors", "app"},
    "settings": {"system", "values", "errors", "app"},
    "system": {"system", "values", "errors", "app"},
    "values": {"values", "errors"},
    "errors": {"errors"},
    "app": set(),
    # These measure what the app runs, and train what it ships.
    **{
        part: {part, "commands", "ui", "api", "conversation", *DOMAINS, *BASE} for part in ("/tools", "/labs")
    },
}
LIGHT = (
    "ui", "api", "web", "desktop", "conversation", "models_registry", "chats", "documents", "remote", "tools",
    "commands", "main", "startup", *BASE,
)  # fmt: skip
HEAVY = {"torch", "transformers"}
LAYERS = {
    "app.engine": (
        "machine", "block", "cpu_kernels", "text", "attention", "sampling", "runner", "lookahead", "decoders",
        "drafters", "layers", "measuring", "graphs", "loading", "embedding", "parallel", "session",
    ),
    "app.models_registry": (
        "files", "hub", "downloads", "catalogue", "installed_models", "locate", "model_library",
    ),
    "app.ui": (
        "frame", "models", "welcome", "live", "chat", "documents", "sidebar", "race", "settings", "layout",
        "serving",
    ),
}  # fmt: skip
"""The layers of a package: each folder or file may import itself and those before it."""
LIGHT_MODULES = (
    "app.ui", "app.api", "app.engine", "app.models_registry", "app.conversation", "app.commands", "app.main",
)  # fmt: skip
MAX_FUNCTION, MAX_FILE = 60, 450


@cache
def parse(source: Path) -> ast.Module:
    return ast.parse((CHECKOUT / source).read_text(encoding="utf-8"), filename=str(source))


@cache
def text_of(source: Path) -> str:
    return (CHECKOUT / source).read_text(encoding="utf-8")


def part_of(module: str) -> str:
    """The part that a module belongs to: app.engine.lookahead.ngram_pool is of the engine, app itself of app.

    The folders beside app/ begin with a slash: /tools is not app/tools."""
    top, *below = module.split(".")
    if top in ("tools", "labs"):
        return f"/{top}"
    if top != "app" or not below or below[0].startswith("__"):
        return top
    return below[0]


def part_of_file(source: Path) -> str:
    return part_of(".".join(source.with_suffix("").parts))


@cache
def imports(source: Path) -> tuple[str, ...]:
    """Every module that this file imports anywhere, with the imported names behind it."""
    found: list[str] = []
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{'.' * node.level}{node.module or ''}.{name.name}" for name in node.names]
    return tuple(found)


def offending(sources: Iterable[Path], is_wrong: Callable[[Path, str], bool]) -> str:
    """Each of these files that imports what it may not, with all of that, a line each."""
    wrong = {source: [name for name in imports(source) if is_wrong(source, name)] for source in sources}
    return listing({source.as_posix(): ", ".join(names) for source, names in wrong.items() if names})


APP = [source for source in SOURCES if source.parts[0] == "app"]
FILES = {".".join(source.with_suffix("").parts).removesuffix(".__init__"): source for source in APP}
"""The files of app/, by the names of their modules."""


def imported_files(source: Path) -> Iterable[Path]:
    """The files of app/ that this one imports: a package's own file only if names of its own are imported."""
    for name in imports(source):
        found = FILES.get(name) or FILES.get(name.rpartition(".")[0])
        if found and found != source:
            yield found


def first_circle(graph: Mapping[Path, set[Path]]) -> str:
    """Some nodes that import each other in a circle, as a line; "" if there are none."""
    left = {node: set(others) for node, others in graph.items()}
    while ends := {node for node, others in left.items() if not others & left.keys()}:
        left = {node: others for node, others in left.items() if node not in ends}
    if not left:
        return ""
    path = [next(iter(sorted(left)))]
    while (follower := min(left[path[-1]] & left.keys())) not in path:
        path.append(follower)
    return " → ".join(map(str, [*path[path.index(follower) :], follower]))


def listing(offenders: Mapping[str, object]) -> str:
    """All of them, a line each: pytest shortens what it compares."""
    return "\n".join(f"{name}: {what}" for name, what in offenders.items())


def test_imports_name_the_whole_module() -> None:
    assert not (wrong := offending(SOURCES, lambda _source, name: name.startswith("."))), wrong


def test_imports_point_one_way() -> None:
    def is_upwards(source: Path, name: str) -> bool:
        return name.split(".")[0] == "app" and part_of(name) not in ALLOWED[part_of_file(source)]

    assert not (wrong := offending(SOURCES, is_upwards)), wrong


@pytest.mark.parametrize("package", list(LAYERS))
def test_layers_of_a_package_import_those_before_them(package: str) -> None:
    layers, depth = LAYERS[package], package.count(".") + 1
    sources = [source for source in SOURCES if source.parts[:depth] == tuple(package.split("."))]
    sources = [source for source in sources if source.parts[depth] != "__init__.py"]
    assert {Path(source.parts[depth]).stem for source in sources} == set(layers)

    def is_upwards(source: Path, name: str) -> bool:
        allowed = layers[: layers.index(Path(source.parts[depth]).stem) + 1]
        return name.startswith(f"{package}.") and name.split(".")[depth] not in allowed

    assert not (wrong := offending(sources, is_upwards)), wrong


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not (circle := first_circle({source: set(imported_files(source)) for source in APP})), circle


def test_no_folders_import_each_other_in_a_circle() -> None:
    """`app/` itself is left out: it holds what is above all (main, startup) and below (errors, settings)."""
    graph: dict[Path, set[Path]] = {}
    for source in (source for source in APP if source.name != "__init__.py"):
        others = {other.parent for other in imported_files(source)} - {source.parent, Path("app")}
        graph.setdefault(source.parent, set()).update(others)
    graph.pop(Path("app"))
    assert not (circle := first_circle(graph)), circle


def test_folders_can_be_overlooked() -> None:
    folders: dict[Path, int] = {}
    for source in APP:
        folders[source.parent] = folders.get(source.parent, 0) + 1
    assert not (full := listing({str(folder): count for folder, count in folders.items() if count > 25})), (
        full
    )
    assert (folders[Path("app")] <= 6, folders[Path("app/engine")] <= 3) == (True, True)


def test_tests_need_neither_tools_nor_labs() -> None:
    """What tests share with them lies in tests/support; only their own tests import them."""
    tests = [path.relative_to(CHECKOUT) for path in (CHECKOUT / "tests").rglob("*.py")]
    others = [source for source in tests if source.parts[1] not in ("tools", "labs")]
    importing = re.compile(r"^\s*(from|import) (tools|labs)\b", re.MULTILINE)
    wrong = [source.as_posix() for source in others if importing.search(text_of(source))]
    assert not wrong, wrong


def test_only_the_engine_imports_torch() -> None:
    light = [source for source in SOURCES if part_of_file(source) in LIGHT]
    assert not (wrong := offending(light, lambda _source, name: name.split(".")[0] in HEAVY)), wrong


def test_one_module_starts_the_openai_client() -> None:
    """Its import takes a second: `app.remote` imports these two where a server is asked."""
    others = [source for source in SOURCES if source.name not in ("client.py", "failures.py")]
    assert not (wrong := offending(others, lambda _source, name: name.split(".")[0] == "openai")), wrong


def test_only_the_ui_imports_gradio() -> None:
    others = [source for source in SOURCES if part_of_file(source) != "ui"]
    assert not (wrong := offending(others, lambda _source, name: name.split(".")[0] == "gradio")), wrong


def test_importing_does_not_wait_for_torch() -> None:
    script = f"""
import importlib, sys
waited = {{}}
for module in {LIGHT_MODULES}:
    importlib.import_module(module)
    if found := sorted({HEAVY | {"openai"}} & sys.modules.keys() - set(sum(waited.values(), []))):
        waited[module] = found
sys.exit(str(waited) if waited else 0)
"""
    child = run_python(script)
    assert (child.returncode, child.stderr) == (0, "")


def test_python_is_started_by_one_module() -> None:
    """It keeps the current folder out of what the new process imports."""
    starting = {
        source.as_posix()
        for source in SOURCES
        if source.parts[0] == "app" and "sys.executable" in text_of(source)
    }
    assert starting == {"app/system/child_process.py", "app/desktop/menu.py"}


def test_every_program_is_started_in_a_folder_of_our_own() -> None:
    def is_elsewhere(node: ast.AST) -> bool:
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "subprocess.run",
            "subprocess.Popen",
        )
        return is_call and not {"cwd", "env"} <= {word.arg for word in node.keywords}

    sources = [source for source in SOURCES if source.parts[0] == "app"]
    wrong = [source.as_posix() for source in sources if any(map(is_elsewhere, ast.walk(parse(source))))]
    assert not wrong, wrong


def test_files_are_replaced_by_one_module() -> None:
    """What is whole and on the disk before it takes another file's place is written by `app/system/files.py`."""
    writing = {
        source.as_posix()
        for source in SOURCES
        if source.parts[0] == "app" and re.search(r"\.write_(text|bytes)\(", text_of(source))
    }
    assert writing == {
        "app/system/files.py",
        "app/database/data_folder.py",  # the address of the instance that runs now
        "app/engine/machine/process_memory.py",  # a file of the system
        "app/models_registry/hub/search.py",  # a temporary folder
        "app/documents/documents.py",  # another one
    }


def test_one_module_touches_the_cache_of_transformers() -> None:
    touching = {
        source.as_posix()
        for source in SOURCES
        for name in imports(source)
        if name.startswith("transformers.cache_utils")
        or (name.startswith("transformers.") and name.endswith("Cache"))
    }
    assert touching <= {"app/engine/runner/kv_cache.py"}


def test_files_can_be_read_without_scrolling_for_long() -> None:
    lengths = {
        source.as_posix(): len((CHECKOUT / source).read_text(encoding="utf-8").splitlines())
        for source in SOURCES
    }
    long = listing({source: length for source, length in lengths.items() if length > MAX_FILE})
    assert not long, long


def test_functions_are_short() -> None:
    lengths = {
        f"{source.as_posix()}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for source in SOURCES
        for node in ast.walk(parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = listing({function: length for function, length in lengths.items() if length > MAX_FUNCTION})
    assert not long, long
