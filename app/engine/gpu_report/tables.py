"""The report as Markdown: goals first, then what was measured, then why something is missing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.engine.gpu_report.findings import Finding, Report, matching
from app.engine.gpu_report.goals import Goal
from app.engine.gpu_report.plan import Plan

Cells = Sequence[object]


def markdown(report: Report, judged: Sequence[Goal], plan: Plan) -> str:
    """The whole page."""
    parts = [
        "# GPU report",
        _list(report.about),
        "## Goals",
        table(("goal", "wanted", "found", ""), [(g.name, g.wanted, g.found, g.state) for g in judged]),
        *_faults(report),
        "## Steps",
        *(part for shape in plan.models for part in _steps(report, shape.name)),
        "## Attention",
        "Milliseconds (share of the copy's bandwidth on keys and values), medians on the device, its cache cold.",
        *(part for heads in plan.heads for part in _attention(report, heads.name)),
        "## The same text",
        *_same_text(report),
        "## Against float64",
        "The worst row's error, in parts of what its type allows.",
        *_errors(report),
        *_soak(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(headings: Cells, rows: Sequence[Cells]) -> str:
    """A table in Markdown; nothing where there are no rows."""
    if not rows:
        return ""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def _list(about: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in about.items())


def _faults(report: Report) -> Iterator[str]:
    """Sections that are not whole."""
    if faults := report.faults():
        yield "## Not whole"
        yield table(("section", "why"), list(faults.items()))


def _steps(report: Report, shape: str) -> Iterator[str]:
    """One shape's steps by rows, and by decoder."""
    yield f"### {shape}"
    for kind in ("step", "quantised step"):
        found = [each for each in report.select(kind) if str(each.at["shape"]).split(",")[0] == shape]
        rows = [(each.at["shape"], each.at["rows"], *_timed(each.numbers)) for each in found]
        yield table(("shape", "rows", "ms", "least", "of the copy's bandwidth"), rows)
    lanes = [
        (
            each.at["lane"],
            *_timed(each.numbers),
            f"{each.numbers['rows_per_step']:.1f}",
            _percent(each.numbers["extra_share"]),
        )
        for each in report.select("decoding", shape=shape)
    ]
    generate = report.last("generate", shape=shape)
    if generate:
        ms = generate["ms"]
        lanes.append(("transformers generate", f"{ms['median']:.3f}", f"{ms['least']:.3f}", "", "1.0", ""))
    headings = (
        "decoding",
        "ms per step",
        "least",
        "of the copy's bandwidth",
        "rows per step",
        "extra memory",
    )
    yield table(headings, lanes)


def _timed(numbers: Mapping[str, Any]) -> tuple[str, str, str]:
    ms = numbers["ms"]
    return f"{ms['median']:.3f}", f"{ms['least']:.3f}", f"{numbers['share_of_copy']:.1%}"


def _attention(report: Report, heads: str) -> Iterator[str]:
    """One shape's layers: a line for each point, a column for each contender."""
    found = [each for each in report.select("attention", heads=heads) if "ms" in each.numbers]
    names = list(dict.fromkeys(each.at["by"] for each in found))
    points = sorted({(int(each.at["prefix"]), int(each.at["rows"])) for each in found})
    rows = [(prefix, rows, *(_cell(found, name, prefix, rows) for name in names)) for prefix, rows in points]
    yield f"### {heads}'s heads"
    yield table(("prefix", "rows", *names), rows)
    missing = {
        each.at["by"]: each.numbers["not_run"]
        for each in report.select("attention", heads=heads)
        if "not_run" in each.numbers
    }
    yield "\n".join(f"- {name}: {why}" for name, why in missing.items())


def _cell(found: Sequence[Finding], name: str | int, prefix: int, rows: int) -> str:
    for each in matching(found, "attention", by=name, prefix=prefix, rows=rows):
        return f"{each.numbers['ms']['median']:.4f} ({each.numbers['share_of_copy']:.0%})"
    return ""


def _same_text(report: Report) -> Iterator[str]:
    """The probe of each shape, and the trained models' replies."""
    probes = [
        (
            each.at["shape"],
            each.numbers["note"],
            f"{each.numbers['seconds']:.1f} s",
            _percent(each.numbers["plain_cost"]),
            _percent(each.numbers["lookahead_cost"]),
        )
        for each in report.select("probe")
    ]
    yield table(("shape", "the probe found", "in", "plain's step costs more", "lookahead's step"), probes)
    newest = {each.at["model"]: each.numbers for each in report.select("replies")}
    replies = [
        (
            model,
            f"{told['same']} of {told['prompts']}",
            _percent(told["plain_cost"]),
            _percent(told["lookahead_cost"]),
            "; ".join(f"{lane}: {speed}" for lane, speed in told["tokens_per_second"].items()),
        )
        for model, told in newest.items()
    ]
    headings = ("model", "identical replies", "plain's cost", "lookahead's cost", "tokens/s")
    yield table(headings, replies)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _errors(report: Report) -> Iterator[str]:
    """Every case by backend."""
    cases: dict[tuple[object, ...], dict[object, str]] = {}
    for each in report.select("error"):
        at, numbers = each.at, each.numbers
        told = f"{numbers['error'] / numbers['allowed']:.3f}" if "error" in numbers else "not run"
        case = (at["heads"], at["dtype"], at["prefix"], at["rows"], at["extra"])
        cases.setdefault(case, {})[at["backend"]] = told
    names = list(dict.fromkeys(name for told in cases.values() for name in told))
    rows = [(*case, *(told.get(name, "") for name in names)) for case, told in cases.items()]
    yield table(("heads", "type", "prefix", "rows", "", *names), rows)
    bits = [
        (
            *(each.at[key] for key in ("backend", "heads", "end", "kind")),
            each.numbers["different"],
            each.numbers["rows"],
        )
        for each in report.select("same rows")
        if "rows" in each.numbers
    ]
    yield table(("backend", "heads", "text's end", "drafted", "rows that differ", "of"), bits)


def _soak(report: Report) -> Iterator[str]:
    """Bytes in use after each lap."""
    told = report.last("soak")
    if told:
        yield "## Soak"
        yield f"{told['requests']} requests in {told['seconds']:.0f} s; bytes in use after each lap:"
        yield ", ".join(f"{used:,}" for used in told["used_bytes"])
