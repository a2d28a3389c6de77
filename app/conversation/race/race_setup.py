"""What a race runs: its ready-made prompts, its lanes, and the plain runs that lanes are measured against.

In half precision with same text on, plain is padded to a bucket of rows. A speed-up over that plain would flatter
the lane, and a text identical to one-row plain would be luck. So `auto` and `lookahead 5/4/5` need four runs:

    plain, same text off    reference   usually the fastest plain: speed-ups are measured against it
    plain, same text on     reference   texts are compared with it
    auto                    lane
    lookahead 5/4/5         lane

In float32, or with same text off, both references are one; where it is a lane, nothing more is run.
"""

import json
from dataclasses import dataclass, replace

from app.conversation.race.decoder_comparison import lane_request
from app.settings import assets_dir
from app.values.messages import Decoding, ModelChoice, ModelInfo, Request
from app.values.race import RacePlan, RacePrompt, TextKind
from app.values.race_runs import LaneChoice

HALF = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class PlainReferences:
    """Plain decoding as the measure of speed (one row a step) and of text (padded alike). They may be the same."""

    one_row: Decoding
    same_bucket: Decoding


def lanes_of(plan: RacePlan) -> tuple[Decoding, ...]:
    """The plan's lanes, each with the plan's `same_text`."""
    return tuple(replace(lane, same_text=plan.same_text) for lane in plan.lanes)


def all_lanes_of(plan: RacePlan) -> tuple[LaneChoice, ...]:
    """The plan's lanes, and the remote one behind them."""
    return (*lanes_of(plan), *plan.remote)


def plain_references(plan: RacePlan, model: ModelInfo) -> PlainReferences:
    """The references of this race. A lane that is one of them is used as it is."""
    lane = next((lane for lane in lanes_of(plan) if lane.decoder == "plain"), None)
    same_bucket = lane or Decoding("plain", same_text=plan.same_text)
    is_padded = plan.same_text and model.dtype in HALF
    return PlainReferences(Decoding("plain", same_text=False) if is_padded else same_bucket, same_bucket)


def extra_references(plan: RacePlan, model: ModelInfo) -> tuple[Decoding, ...]:
    """The references that are not lanes and must be run, too."""
    references, lanes = plain_references(plan, model), lanes_of(plan)
    wanted = dict.fromkeys((references.one_row, references.same_bucket))
    return tuple(plain for plain in wanted if plain not in lanes)


def race_request(plan: RacePlan, lane: LaneChoice) -> Request:
    """The request of one run of the race. A server gets the same prompt and, of the options, what it knows."""
    if isinstance(lane, ModelChoice):
        return Request(lane, plan.messages, plan.options)
    return lane_request(plan.model, plan.messages, plan.options, lane)


def ready_prompts() -> tuple[RacePrompt, ...]:
    """The prompts of assets/race/prompts.jsonl, one `{"kind": "code", "text": "..."}` a line."""
    lines = (assets_dir() / "race" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(RacePrompt(**json.loads(line)) for line in lines if line.strip())


def next_prompt(prompts: tuple[RacePrompt, ...], kind: TextKind, text: str) -> str:
    """The prompt of this kind after the one with this text, cyclically; "" where there is none."""
    texts = [prompt.text for prompt in prompts if prompt.kind == kind]
    if not texts:
        return ""
    return texts[(texts.index(text) + 1) % len(texts)] if text in texts else texts[0]
