"""`bench --gpu-report`: runs the engine's report and prints the goals. torch comes with the first call."""

from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from app.commands.prompts import Asked, Draw, read_prompts, read_sets
from app.engine.quiet import quiet_imports
from app.errors import BadOption
from app.settings import assets_dir

if TYPE_CHECKING:
    from app.engine.gpu_report import Plan

STORIES = ("shared", "models", "stories260K")
"""A small trained model beside the checkout or in it, where somebody put it."""
PROMPTS = 40


def gpu_report(folder: Path) -> None:
    """Write the report into the folder and print what is judged. Raises BadOption without a CUDA device."""
    quiet_imports()
    show(folder.expanduser().absolute(), whole_plan())


def whole_plan() -> "Plan":
    """Everything, with the trained models that are on this machine."""
    from app.engine.gpu_report import Plan, ReplySet

    demo, stories = assets_dir() / "demo-model", _stories()
    replies = [ReplySet("demo", demo, tuple(asked.prompt for asked in _questions()))]
    replies += [ReplySet(path.name, path, tuple(asked.prompt for asked in _beginnings())) for path in stories]
    return Plan(replies=tuple(replies), soak_folders=(demo, *stories))


def show(folder: Path, plan: "Plan") -> None:
    """Run the plan, a line for each section, then the goals."""
    from app.engine.gpu_report import check_device, read_goals, write_report

    check_device(plan)
    console = Console()
    for result in write_report(_writable(folder), plan):
        fault = f": {result.fault}" if result.fault else ""
        counted = f"{len(result.findings)} findings in {result.seconds:.0f} s"
        console.print(f"{result.name}: {counted}{fault}", markup=False, highlight=False)
    table = Table(box=SIMPLE, pad_edge=False)
    for heading in ("goal", "wanted", "found", ""):
        table.add_column(heading)
    for goal in read_goals(folder):
        table.add_row(goal.name, goal.wanted, goal.found, goal.state)
    console.print(table)
    console.print(f"The report is in {folder}.", markup=False, highlight=False)


def _writable(folder: Path) -> Path:
    """The folder, made if need be; raises BadOption now rather than after minutes of measuring."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").open("a").close()
    except OSError as error:
        raise BadOption(
            f"{folder} cannot be written ({error.strerror}): choose another folder for --gpu-report."
        ) from error
    return folder


def _questions() -> list[Asked]:
    """Prompts of all shipped sets, one of each in turn."""
    in_turn = zip_longest(*(one.prompts for one in read_sets([], raw=False, draw=Draw())))
    return [asked for asked in chain.from_iterable(in_turn) if asked][:PROMPTS]


def _beginnings() -> list[Asked]:
    """Beginnings of stories, as they stand."""
    return read_prompts(None, assets_dir() / "bench" / "stories.jsonl", raw=True, draw=Draw())


def _stories() -> list[Path]:
    return [path for path in _story_places() if path.is_dir()][:1]


def _story_places() -> Iterator[Path]:
    checkout = assets_dir().parent
    for place in (checkout, checkout.parent):
        yield place.joinpath(*STORIES)
