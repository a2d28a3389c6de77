"""What the report is judged by, each goal beside what was found."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from app.engine.gpu_report.attention_times import DENSE
from app.engine.gpu_report.findings import Report
from app.engine.gpu_report.plan import Plan
from app.engine.gpu_report.sections import ATTENTION, CORRECTNESS, SOAK, reply_section

State = Literal["reached", "reached so far", "missed", "not run"]
"""So far: with fewer replies, or a shorter soak, than the goal asks for."""

BANDWIDTH, AGAINST_GENERATE = 0.80, 3.0
ROW_COSTS = {64: 1.15, 128: 1.35}
AGAINST_DENSE, KV_BANDWIDTH = 1.5, 0.70
EXTRA_MEMORY = 0.01
SAME_REPLIES, ALL_REPLIES, SAME_TEXT_COST = 0.995, 400, 0.10
WHOLE_SOAK = 600.0


@dataclass(frozen=True, slots=True)
class Goal:
    """One line: what is wanted, what was found, and whether that is enough."""

    name: str
    wanted: str
    found: str
    state: State


def goals(report: Report, plan: Plan) -> list[Goal]:
    """Every goal, in the order in which they are asked for."""
    return [
        *_plain(report, plan),
        *_rows(report, plan),
        *_attention(report, plan),
        _memory(report, plan),
        *_same_text(report, plan),
        *_correctness(report),
        _soak(report),
    ]


def _judged(name: str, wanted: str, found: str, is_reached: bool, is_whole: bool = True) -> Goal:
    reached: State = "reached" if is_whole else "reached so far"
    return Goal(name, wanted, found, reached if is_reached else "missed")


def _not_run(report: Report, name: str, wanted: str, section: str) -> Goal:
    return Goal(name, wanted, report.faults().get(section, "nothing was measured"), "not run")


def _plain(report: Report, plan: Plan) -> Iterator[Goal]:
    """Bandwidth of plain decoding, and its speed beside transformers' generate."""
    shape = plan.models[0].name
    plain = report.last("decoding", shape=shape, lane="plain")
    generate = report.last("generate", shape=shape)
    name = f"plain decoding, {shape}, {plan.dtype}, {plan.context} tokens of context"
    wanted = f"at least {BANDWIDTH:.0%} of the copy's bandwidth on weights and KV"
    if plain:
        share = plain["share_of_copy"]
        yield _judged(name, wanted, f"{share:.1%} ({_ms(plain)})", share >= BANDWIDTH)
    else:
        yield _not_run(report, name, wanted, shape)
    wanted = f"at least {AGAINST_GENERATE:.0f}x transformers' default generate"
    if plain and generate:
        ratio = generate["ms"]["median"] / plain["ms"]["median"]
        yield _judged(name, wanted, f"{ratio:.2f}x (generate: {_ms(generate)})", ratio >= AGAINST_GENERATE)
    else:
        yield _not_run(report, name, wanted, shape)


def _ms(numbers: Any) -> str:
    return f"{numbers['ms']['median']:.3f} ms"


def _rows(report: Report, plan: Plan) -> Iterator[Goal]:
    """What many rows cost against one."""
    shape = plan.models[0].name
    one = report.last("step", shape=shape, rows=1)
    for rows, most in ROW_COSTS.items():
        many = report.last("step", shape=shape, rows=rows)
        name, wanted = f"a {rows}-row step, same shape", f"at most {most:.2f}x of a one-row step"
        if one and many:
            ratio = many["ms"]["median"] / one["ms"]["median"]
            yield _judged(name, wanted, f"{ratio:.3f}x ({_ms(many)} to {_ms(one)})", ratio <= most)
        else:
            yield _not_run(report, name, wanted, shape)


def _attention(report: Report, plan: Plan) -> Iterator[Goal]:
    """Ours beside the faster of the two dense masks, and its bandwidth, for every shape of heads."""
    longest = max(plan.prefixes)
    for heads in plan.heads:
        at: dict[str, str | int] = {"heads": heads.name, "rows": plan.judged_rows, "prefix": longest}
        ours = report.last("attention", by="triton", **at)
        dense = [found for by in (DENSE, "sdpa") if (found := report.last("attention", by=by, **at))]
        name = f"triton attention, {heads.name}'s heads, {plan.judged_rows} rows, prefix {longest}"
        wanted = f"at least {AGAINST_DENSE:.1f}x as fast as dense-mask SDPA"
        if ours and dense:
            ratio = min(each["ms"]["median"] for each in dense) / ours["ms"]["median"]
            yield _judged(name, wanted, f"{ratio:.2f}x ({_ms(ours)})", ratio >= AGAINST_DENSE)
        else:
            yield _not_run(report, name, wanted, ATTENTION)
        wanted = f"at least {KV_BANDWIDTH:.0%} of the copy's bandwidth on the KV"
        if ours:
            share = ours["share_of_copy"]
            yield _judged(name, wanted, f"{share:.1%}", share >= KV_BANDWIDTH)
        else:
            yield _not_run(report, name, wanted, ATTENTION)


def _memory(report: Report, plan: Plan) -> Goal:
    shape = plan.models[0].name
    shares = [
        found.numbers["extra_share"]
        for found in report.select("decoding", shape=shape)
        if found.at["lane"] != "plain" and found.numbers["extra_share"] is not None
    ]
    name, wanted = f"lookahead's extra device memory, {shape}", f"at most {EXTRA_MEMORY:.0%} of the model's"
    if not shares:
        return _not_run(report, name, wanted, shape)
    return _judged(name, wanted, f"{max(shares):.2%}", max(shares) <= EXTRA_MEMORY)


def _same_text(report: Report, plan: Plan) -> Iterator[Goal]:
    """Identical replies of the trained models, and the cost: theirs, and that of the first shape's steps."""
    cost = f"at a cost of at most {SAME_TEXT_COST:.0%}"
    for asked in plan.replies:
        told = report.last("replies", model=asked.name)
        name, wanted = f"same text, {asked.name}", f"at least {SAME_REPLIES:.1%} of replies identical"
        if not told:
            for each in (wanted, f"{cost} of tokens/s"):
                yield _not_run(report, name, each, reply_section(asked.name))
            continue
        share = told["same"] / told["prompts"]
        found = f"{told['same']} of {told['prompts']} ({ALL_REPLIES} are asked for)"
        yield _judged(name, wanted, found, share >= SAME_REPLIES, told["prompts"] >= ALL_REPLIES)
        yield _costs(name, f"{cost} of tokens/s", told)
    shape = plan.models[0].name
    name, wanted = f"same text, steps of {shape}", f"{cost} of a step"
    probed = report.last("probe", shape=shape)
    yield _costs(name, wanted, probed) if probed else _not_run(report, name, wanted, shape)


def _costs(name: str, wanted: str, told: Any) -> Goal:
    plain, drafted = told["plain_cost"], told["lookahead_cost"]
    if plain is None or drafted is None:
        return Goal(name, wanted, told["note"], "missed")
    found = f"plain {plain:.1%}, lookahead {drafted:.1%}"
    return _judged(name, wanted, found, max(plain, drafted) <= SAME_TEXT_COST)


def _correctness(report: Report) -> Iterator[Goal]:
    """The worst error of each backend, NaN, and whether a row's bits depend on its neighbours."""
    ran = [found for found in report.select("error") if "error" in found.numbers]
    name, wanted = "relative error against float64", "within the dtype's rounding in every case"
    tiles, finite = "fully masked tiles", "no NaN"
    for backend in sorted({str(found.at["backend"]) for found in ran}):
        parts = [f.numbers["error"] / f.numbers["allowed"] for f in ran if f.at["backend"] == backend]
        found = f"{max(parts):.2f} of what is allowed, {len(parts)} cases"
        yield _judged(f"{name}, {backend}", wanted, found, max(parts) <= 1)
    if ran:
        bad = sum(not found.numbers["is_finite"] for found in ran)
        yield _judged(tiles, finite, f"{bad} of {len(ran)} cases with NaN", bad == 0)
    else:
        yield _not_run(report, name, wanted, CORRECTNESS)
        yield _not_run(report, tiles, finite, CORRECTNESS)
    rows = [f.numbers for f in report.select("same rows", backend="triton") if "rows" in f.numbers]
    name, wanted = "a row alone, among others, drafted (triton)", "the same bits"
    if rows:
        different, compared = (sum(each[kind] for each in rows) for kind in ("different", "rows"))
        yield _judged(name, wanted, f"{different} of {compared} rows differ", different == 0)
    else:
        yield _not_run(report, name, wanted, CORRECTNESS)


def _soak(report: Report) -> Goal:
    name, wanted = "soak: growth, stops, restarts, other models", "ends with the memory it began with"
    told = report.last("soak")
    if not told:
        return _not_run(report, name, wanted, SOAK)
    used = told["used_bytes"]
    first, last = used[0], used[-1]
    found = (
        f"{last - first:+,} bytes after {told['seconds']:.0f} s of the {WHOLE_SOAK:.0f} asked for "
        f"({len(used)} laps, {told['requests']} requests)"
    )
    if len(used) < 2 or not last:
        return Goal(name, wanted, "too few laps, or a device that does not tell its memory", "not run")
    return _judged(name, wanted, found, last <= first, told["seconds"] >= WHOLE_SOAK)
