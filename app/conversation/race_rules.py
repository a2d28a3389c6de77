"""The rules of a race: which plains are run beside the lanes, what is compared with what.

In half precision with same text on, plain is padded to its width class. A speed-up over that one would flatter, an
identity with the one-row plain would be luck. So with lanes `auto` and `lookahead 5/4/5` there are four heats:

    plain, same text off    beside     the fastest plain, as a rule: speed-ups are measured against it
    plain, same text on     beside     the reference of the text
    auto                    lane
    lookahead 5/4/5         lane

In float32, or with same text off, both are one plain, and where that is a lane nothing is run beside.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.conversation.reply import Reply
from app.messages import Decoding, ModelInfo, Request
from app.race_messages import Difference, LaneRun, RacePlan

HALF = ("bfloat16", "float16")
WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Heat:
    """One decoding of the race and its log; `is_beside` where it is no lane but a measure."""

    decoding: Decoding
    reply: Reply
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class Plains:
    """The two measures: of speed, one row a step, and of text. They may be the same decoding."""

    one_row: Decoding
    same_class: Decoding


def lanes_of(plan: RacePlan) -> tuple[Decoding, ...]:
    """The plan's lanes, each under the plan's rule for the text."""
    return tuple(replace(lane, same_text=plan.same_text) for lane in plan.lanes)


def plains_of(plan: RacePlan, model: ModelInfo) -> Plains:
    """Which plains are the measures of this race; a lane that is one of them is taken for it."""
    of_lanes = next((lane for lane in lanes_of(plan) if lane.decoder == "plain"), None)
    same_class = of_lanes or Decoding("plain", same_text=plan.same_text)
    is_padded = plan.same_text and model.dtype in HALF
    return Plains(Decoding("plain", same_text=False) if is_padded else same_class, same_class)


def beside(plan: RacePlan, model: ModelInfo) -> tuple[Decoding, ...]:
    """The plains that must be run beside the lanes."""
    plains, lanes = plains_of(plan, model), lanes_of(plan)
    wanted = dict.fromkeys((plains.one_row, plains.same_class))
    return tuple(plain for plain in wanted if plain not in lanes)


def request_for(plan: RacePlan, decoding: Decoding) -> Request:
    """What the engine is asked for one heat. Cold: the pool and the cache of another heat would be a head start."""
    options = replace(plan.options, decoding=decoding)
    return Request(plan.model, plan.messages, options, is_cold=True)


def warm_up_for(plan: RacePlan, decoding: Decoding) -> Request:
    """A few tokens with this decoder, so that no heat pays for what is made once."""
    request = request_for(plan, decoding)
    tokens = min(WARM_UP_TOKENS, plan.options.max_new_tokens)
    return replace(request, options=replace(request.options, max_new_tokens=tokens))


def fastest_plain(runs: Iterable[LaneRun]) -> LaneRun | None:
    """The fastest of the plain runs that have ended: usually, but not on every machine, the one of one row."""
    plains = [run for run in runs if run.decoding.decoder == "plain" and run.reason]
    return max(plains, key=lambda run: run.statistics.tokens_per_second, default=None)


def speed_up(run: LaneRun, fastest: LaneRun | None) -> float:
    """How many times as fast as the fastest plain; 0 where one of them has no speed."""
    plain = fastest.statistics.tokens_per_second if fastest else 0.0
    return run.statistics.tokens_per_second / plain if plain else 0.0


def first_difference(run: LaneRun, plain: LaneRun) -> Difference | None:
    """Where a lane's tokens and plain's part; None where they are the same."""
    if run.token_ids == plain.token_ids:
        return None
    pairs = zip(run.token_ids, plain.token_ids, strict=False)
    shorter = min(len(run.token_ids), len(plain.token_ids))
    index = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)
    return Difference(index, run.token_text(index), plain.token_text(index))
