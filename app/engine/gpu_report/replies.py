"""Trained models that are on this machine: replies with lookahead on and off, and what keeping them the same costs.

Four lanes write each reply, in turn: plain and lookahead, each with the same text kept and without. Those that keep
it must agree token by token; the others tell the cost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from app.engine.gpu_report.findings import Finding
from app.engine.gpu_report.gauge import Gauge
from app.engine.gpu_report.plan import Plan, ReplySet
from app.engine.session import Session
from app.engine.unwatched import NeverStops, silent
from app.messages import (
    DecoderName,
    Decoding,
    Device,
    Finished,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Progress,
    Prompt,
    Request,
    Statistics,
)

LANES: tuple[tuple[DecoderName, bool], ...] = (
    ("plain", True),
    ("lookahead", True),
    ("lookahead", False),
    ("plain", False),
)
TOLD_EVERY = 4
"""Prompts between two findings: the section may end at any time."""


def locate(name: str, _progress: Progress) -> ModelFolder:
    """A folder, by its path."""
    return ModelFolder(Path(name), Path(name).name)


@dataclass(slots=True)
class Tally:
    """What came of all prompts so far; seconds and tokens by lane."""

    prompts: int = 0
    same: int = 0
    tokens: dict[tuple[DecoderName, bool], int] = field(default_factory=dict)
    seconds: dict[tuple[DecoderName, bool], float] = field(default_factory=dict)

    def add(self, written: dict[tuple[DecoderName, bool], tuple[tuple[int, ...], Statistics]]) -> None:
        """Count one prompt's replies."""
        self.prompts += 1
        self.same += written["plain", True][0] == written["lookahead", True][0]
        for lane, (_, statistics) in written.items():
            self.tokens[lane] = self.tokens.get(lane, 0) + statistics.tokens
            self.seconds[lane] = self.seconds.get(lane, 0.0) + statistics.seconds

    def numbers(self) -> dict[str, Any]:
        """As a finding has them; a cost is the share of tokens per second that is lost."""
        speed = {lane: self.tokens[lane] / self.seconds[lane] for lane in LANES}
        costs = {
            f"{name}_cost": 1 - speed[name, True] / speed[name, False] for name in ("plain", "lookahead")
        }
        named = {
            f"{name}, same text {'on' if kept else 'off'}": round(each, 2)
            for (name, kept), each in speed.items()
        }
        return {"prompts": self.prompts, "same": self.same, "tokens_per_second": named, **costs}


def replies(asked: ReplySet, plan: Plan, gauge: Gauge) -> Iterator[Finding]:
    """What it came to so far, every few prompts and at the end."""
    device: Device = "cuda" if gauge.device.type == "cuda" else "cpu"
    choice = ModelChoice(str(asked.folder), plan.dtype, device)
    with TemporaryDirectory() as notes:
        session = Session(locate, Path(notes))
        info = session.open(choice, silent).info
        tally = Tally()
        for number, prompt in enumerate(asked.prompts, start=1):
            tally.add({lane: _reply(session, choice, prompt, plan, *lane) for lane in LANES})
            if number % TOLD_EVERY == 0 or number == len(asked.prompts):
                at: dict[str, str | int] = {"model": asked.name}
                told = {"asked": len(asked.prompts), "reply_tokens": plan.reply_tokens}
                yield Finding(
                    "replies",
                    at,
                    {
                        **tally.numbers(),
                        **told,
                        "note": info.same_text_note,
                        "attention": info.attention,
                        "lookahead_note": info.lookahead_note,
                    },
                )


@torch.inference_mode()
def _reply(
    session: Session, choice: ModelChoice, prompt: Prompt, plan: Plan, decoder: DecoderName, same_text: bool
) -> tuple[tuple[int, ...], Statistics]:
    """One cold reply of full length."""
    options = Options(
        decoding=Decoding(decoder, same_text=same_text), max_new_tokens=plan.reply_tokens, ignore_eos=True
    )
    request = Request(choice, prompt, options, is_cold=True)
    events = list(session.events(request, silent, NeverStops()))
    finished = events[-1]
    assert isinstance(finished, Finished)
    pieces = (event for event in events if isinstance(event, Piece))
    return tuple(token for piece in pieces for token in piece.token_ids), finished.statistics
