"""A finished race as a JSON file."""

import json
from dataclasses import asdict
from datetime import UTC, datetime

from app.ui.frame.file_export import file_html
from app.values.race import LaneResult, RaceResult, RemoteResult
from app.values.race_runs import Run


def race_json(result: RaceResult) -> str:
    """The prompt, the options, the model, the machine, and each lane's text, tokens, curve and statistics."""
    plan = result.plan
    report = {
        "app": f"Foresight {result.app}",
        "at": datetime.fromtimestamp(result.at, UTC).isoformat(timespec="seconds"),
        "machine": result.machine,
        "model": asdict(result.model),
        "prompt": asdict(plan.prompt),
        "options": asdict(plan.options),
        "fastest_plain": _run(result.fastest_plain),
        "lanes": [_lane(lane) for lane in result.lanes],
        "remote": [_remote(remote) for remote in result.remote],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def json_file(result: RaceResult) -> str:
    """The report as a file that the page downloads."""
    return file_html(f"{_stem(result)}.json", race_json(result), "application/json")


def _stem(result: RaceResult) -> str:
    at = datetime.fromtimestamp(result.at).strftime("%Y-%m-%d-%H%M%S")
    return f"foresight-race-{result.plan.prompt.kind}-{at}"


def _lane(lane: LaneResult) -> dict[str, object]:
    return {
        "name": lane.run.name,
        "speed_up": asdict(lane.speed_up),
        "tokens_per_second_by_round": lane.speeds,
        "is_identical": lane.is_identical,
        "difference": asdict(lane.difference) if lane.difference else None,
        **_run(lane.run),
    }


def _remote(remote: RemoteResult) -> dict[str, object]:
    model = remote.run.model
    return {
        "name": remote.run.name,
        "tokens_per_second_by_round": remote.speeds,
        "seconds_to_first_token_by_round": remote.waits,
        **_run(remote.run),
        "failure": remote.failure,
        "model": {"name": model.name, "server": model.server},
    }


def _run(run: Run) -> dict[str, object]:
    numbers = run.statistics
    return {
        **asdict(run),
        "tokens_per_second": numbers.tokens_per_second,
        "tokens_per_step": numbers.tokens_per_step,
        "rows_per_step": numbers.rows_per_step,
        "seconds": run.seconds,
    }
