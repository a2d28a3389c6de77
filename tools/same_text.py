"""Counts the replies that are the same with lookahead on and off.

    python -m tools.same_text --model demo --prompts 400 --tokens 256 --dtype bfloat16

Each side (on, off) has its own session. The second session reads the step times that the first has measured, as
the app does at its next start. Every second prompt continues the text before: a chat after plain decoding's reply,
a story after the first half of this reply. With `--reuse`, each side then reuses its cache. Replies are written to
the full length. Prints a JSON line of options and numbers after every 20 prompts and at the end, and with `--show`
a line for each reply that differs.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.settings import assets_dir
from app.values.messages import (
    Decoding,
    Finished,
    Message,
    ModelChoice,
    ModelFolder,
    ModelInfo,
    Options,
    Piece,
    Progress,
    Prompt,
    Request,
    Sampling,
    Statistics,
)
from tools.prompts import questions, stories


@dataclass(frozen=True, slots=True)
class Written:
    """A reply with its statistics, and the seconds that it took."""

    tokens: tuple[int, ...]
    text: str
    statistics: Statistics
    seconds: float


@dataclass(slots=True)
class Tally:
    """The results of all replies so far."""

    prompts: int = 0
    same: int = 0
    tokens: int = 0
    reused: int = 0
    seconds_on: float = 0.0
    seconds_off: float = 0.0
    steps_on: int = 0
    steps_off: int = 0

    def add(self, on: Written, off: Written) -> None:
        self.prompts += 1
        self.same += on.tokens == off.tokens
        self.tokens += len(off.tokens)
        self.reused += on.statistics.reused_tokens
        self.seconds_on += on.seconds
        self.seconds_off += off.seconds
        self.steps_on += on.statistics.steps
        self.steps_off += off.statistics.steps


class Side:
    """A session with one decoder; without `reuse` it forgets its cache before each reply."""

    def __init__(self, choice: ModelChoice, options: Options, reuse: bool, notes_dir: Path) -> None:
        self._session = Session(locate, notes_dir)
        self._choice = choice
        self._options = options
        self._reuse = reuse

    def write(self, prompt: Prompt) -> Written:
        if not self._reuse:
            self._session.forget()
        return written(self._session, Request(self._choice, prompt, self._options))

    def load(self) -> ModelInfo:
        """Load the model, and measure it before anything is timed."""
        return self._session.open(self._choice, no_progress).info


def written(session: Session, request: Request) -> Written:
    """Write a reply to its end."""
    begin = perf_counter()
    *events, end = session.events(request, no_progress)
    assert isinstance(end, Finished)
    pieces = [event for event in events if isinstance(event, Piece)]
    tokens = tuple(token for piece in pieces for token in piece.token_ids)
    return Written(tokens, "".join(piece.text for piece in pieces), end.statistics, perf_counter() - begin)


def locate(name: str, _progress: Progress) -> ModelFolder:
    """Find the demo model, or a folder."""
    path = assets_dir() / "demo-model" if name == "demo" else Path(name)
    return ModelFolder(path, path.name)


def compare(on: Side, off: Side, prompts: Iterator[Prompt], count: int, show: bool) -> Iterator[Tally]:
    """Give both sides the same prompts; every second prompt continues `off`'s previous reply. Yields the results
    so far."""
    tally = Tally()
    before: Prompt = ""
    reply = ""
    while tally.prompts < count:
        prompt = next(prompts)
        if tally.prompts % 2:
            prompt = continued(before, reply, prompt)
        ours, plain = on.write(prompt), off.write(prompt)
        tally.add(ours, plain)
        before, reply = prompt, plain.text
        if show and ours.tokens != plain.tokens:
            print("differs:", prompt)
        yield tally


def continued(before: Prompt, reply: str, prompt: Prompt) -> Prompt:
    """Append the reply and the next question to a chat; append half of the reply and the prompt to a story."""
    if isinstance(before, tuple) and isinstance(prompt, tuple):
        return (*before, Message("assistant", reply), *prompt)
    return f"{before}{reply[: len(reply) // 2]} {prompt}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo", help="demo, or a folder of a story model")
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--decoder", default="lookahead", help="the decoder that is compared with plain")
    parser.add_argument("--reuse", action="store_true", help="keep the cache from one prompt to the next")
    parser.add_argument(
        "--free",
        action="store_true",
        help="do not require the text that plain decoding writes (same_text=False)",
    )
    parser.add_argument("--show", action="store_true", help="print prompts whose replies differ")
    given = parser.parse_args()
    choice = ModelChoice(given.model, given.dtype, given.device)
    options = Options(
        Sampling(temperature=given.temperature, seed=given.seed),
        Decoding(given.decoder, same_text=not given.free),
        max_new_tokens=given.tokens,
        ignore_eos=True,
    )
    plain = replace(options, decoding=replace(options.decoding, decoder="plain"))
    with TemporaryDirectory() as notes:
        on, off = (Side(choice, asked, given.reuse, Path(notes)) for asked in (options, plain))
        # One after the other, because the second session reads what the first has measured.
        print(on.load().note("same-text"), "|", off.load().note("same-text"), flush=True)
    prompts: Iterator[Prompt] = questions(given.seed) if given.model == "demo" else stories(given.seed)
    for tally in compare(on, off, prompts, given.prompts, given.show):
        if tally.prompts % 20 == 0 or tally.prompts == given.prompts:
            print(json.dumps({**vars(given), **asdict(tally)}), flush=True)


if __name__ == "__main__":
    main()
