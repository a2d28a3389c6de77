"""Prompts from the command line: a single text, or files with one JSON object per line.

{"messages": [{"role": "user", "content": "Hi"}, ...]}
{"prompt": "plinth otter seven", "temperature": 1.5, "seed": 3}
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.commands.options import read_text
from app.errors import BadOption
from app.settings import assets_dir
from app.values.dataclass_json import parse_json
from app.values.messages import Message, Options, Prompt, Sampling
from app.values.text_normalisation import without_surrogates

SHIPPED_SETS = ("chat", "tasks", "shell", "code", "quoting", "random")
"""The prompt sets in assets/bench, in the order in which `bench` runs them."""


@dataclass(frozen=True, slots=True)
class SamplingOverride:
    """The temperature and the seed that were given; None for a value that was not given."""

    temperature: float | None = None
    seed: int | None = None

    @property
    def given(self) -> dict[str, float]:
        """The values that are not None, by their field names."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def apply(self, sampling: Sampling) -> Sampling:
        """Return the sampling with these values. Raises ValueError for impossible values."""
        return replace(sampling, **self.given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PromptItem:
    """A prompt and its own sampling values; `later_turns` are the user's next messages in the same chat."""

    prompt: Prompt
    override: SamplingOverride = field(default_factory=SamplingOverride)
    later_turns: tuple[str, ...] = ()

    def options(self, options: Options) -> Options:
        """Return these options with the prompt's own values."""
        return replace(options, sampling=self.override.apply(options.sampling))

    def next_turn(self, reply: str) -> "PromptItem | None":
        """Return the chat continued by this reply and the user's next message; None if there is no next message."""
        if not isinstance(self.prompt, tuple) or not self.later_turns:
            return None
        chat = (*self.prompt, Message("assistant", reply), Message("user", self.later_turns[0]))
        return replace(self, prompt=chat, later_turns=self.later_turns[1:])


@dataclass(frozen=True, slots=True)
class PromptSet:
    name: str
    prompts: tuple[PromptItem, ...]


def require_sampled(sampling: Sampling, override: SamplingOverride, items: Sequence[PromptItem] = ()) -> None:
    """Raise BadOption for given options that change nothing because every reply is greedy."""
    temperatures = [sampling.temperature, *(one.override.apply(sampling).temperature for one in items)]
    values = {name: getattr(sampling, name) for name in ("top_k", "top_p", "min_p")}
    given = [name for name, value in values.items() if value != getattr(Sampling(), name)]
    given += ["seed"] if override.seed is not None else []
    if not given or any(temperatures):
        return
    names = " and ".join(f"--{name.replace('_', '-')}" for name in given)
    changes = "changes" if len(given) == 1 else "change"
    raise BadOption(f"{names} {changes} nothing at temperature 0. Add --temperature, such as 0.8.")


def read_prompts(
    text: str | None, file: Path | None, raw: bool, override: SamplingOverride
) -> list[PromptItem]:
    """Read the prompts of --prompt or --prompts. Raises BadOption unless one of them is given and valid."""
    if (text is None) == (file is None):
        raise BadOption("Give either --prompt TEXT or --prompts FILE.jsonl.")
    if file is None:
        return [PromptItem(_as_prompt(text or "", raw, "--prompt"), override)]
    items = list[PromptItem]()
    lines = read_text(file).split("\n")  # not splitlines, because JSON strings may contain U+2028
    for number, line in enumerate(lines, start=1):
        where = f"{file}, line {number}"
        if line.strip():
            try:
                item = parse_json(line)
            except ValueError as error:
                raise BadOption(f"{where} is not valid JSON. Write one object a line.") from error
            items.append(PromptItem(_prompt(item, raw, where), _override(item, where)))
    if not items:
        raise BadOption(f'{file} has no prompts. Write one object a line, such as {{"prompt": "Hello"}}.')
    given = override.given
    return [
        replace(item, override=replace(item.override, **given))  # type: ignore[arg-type]
        for item in items
    ]


def read_sets(files: Sequence[Path], raw: bool, override: SamplingOverride) -> list[PromptSet]:
    """Read a prompt set from each file, or all shipped sets. Sets with the same name are named by their paths.

    Raises BadOption."""
    paths = list(files) or [assets_dir() / "bench" / f"{name}.jsonl" for name in SHIPPED_SETS]
    stems = [path.stem for path in paths]
    return [
        PromptSet(
            stem if stems.count(stem) == 1 else str(path), tuple(read_prompts(None, path, raw, override))
        )
        for stem, path in zip(stems, paths, strict=True)
    ]


def _override(item: dict[str, Any], where: str) -> SamplingOverride:
    """Read a line's own sampling values. They are checked here, so that the error names the line.

    Raises BadOption."""
    temperature, seed = item.get("temperature"), item.get("seed")
    if not isinstance(temperature, float | int | None) or not isinstance(seed, int | None):
        raise BadOption(f"{where}: the temperature must be a number and the seed an integer.")
    override = SamplingOverride(temperature, seed)
    try:
        override.apply(Sampling())
    except ValueError as error:
        raise BadOption(f"{where}: {error}.") from error
    return override


def _prompt(item: Any, raw: bool, where: str) -> Prompt:
    match item:
        case {"prompt": str(text)}:
            return _as_prompt(text, raw, where)
        case {"messages": _} if raw:
            raise BadOption(f"{where}: with --raw give a prompt instead of messages.")
        case {"messages": [*messages]} if messages:
            return tuple(_message(message, where) for message in messages)
        case _:
            raise BadOption(f'{where} needs "prompt": "..." or "messages": [...].')


def _message(item: Any, where: str) -> Message:
    match item:
        case {"role": "system" | "user" | "assistant" as role, "content": str(content)}:
            return Message(role, without_surrogates(content))
        case _:
            raise BadOption(f"{where}: a message needs a role (system, user or assistant) and its content.")


def _as_prompt(text: str, raw: bool, where: str) -> Prompt:
    if not text.strip():
        raise BadOption(f"{where}: the prompt is empty.")
    readable = without_surrogates(text)
    return readable if raw else (Message("user", readable),)
