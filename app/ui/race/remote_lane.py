"""The remote lane as the Race view shows it: measured beside the others, and compared with nothing."""

from collections.abc import Sequence

from markupsafe import Markup

from app.conversation.race.race import ROUNDS
from app.ui.frame.templates import render_macro
from app.ui.race.formatting import between_rates, rate, title
from app.values.race import RaceResult, RemoteResult
from app.values.race_runs import RemoteRun, Run
from app.values.server import server_name

MAY_DIFFER = "text may differ"


def unit_of(run: Run) -> str:
    """What is counted: "token", or "piece" where a server does not tell how many tokens it wrote."""
    return "piece" if isinstance(run, RemoteRun) and run.counts_pieces and run.text else "token"


def remote_verdict(remote: RemoteResult) -> str:
    """What the remote lane says beside the verdict on the lanes of this machine."""
    run = remote.run
    if remote.failure:
        return "The remote lane failed."
    first = f", but {rate(remote.speeds[0])} in the first round" if remote.starts_slowly else ""
    differs = "It is another model or another machine, so its text may differ."
    return f"{title(run.name)} wrote {_measured(remote)}{first}. {differs}"


def _measured(remote: RemoteResult) -> str:
    speed = remote.speed
    if not speed.median:
        return "too little to measure"
    return f"{rate(speed.median)} {unit_of(remote.run)}s/s ({between_rates(speed)})"


def remote_note(result: RaceResult) -> str:
    """How the remote lane was measured; "" without one."""
    return " ".join(map(_conditions, result.remote))


def _conditions(remote: RemoteResult) -> str:
    counts = {
        "token": "Its tokens are those that the server counted.",
        "piece": "The server does not tell how many tokens it wrote: the pieces of its text are counted.",
    }
    host = server_name(remote.run.model.server)
    return (
        f"{host} got the same prompt and, of the sampling settings, temperature, top-p, seed and max tokens: once "
        f"to warm up, then in {ROUNDS} rounds while nothing ran here. A server can keep prompts and replies, and "
        "write the same reply faster the next time. The time includes the network. "
        f"{counts[unit_of(remote.run)] if remote.speeds else ''}"
    )


def remote_output(run: RemoteRun, failure: str) -> dict[str, object]:
    """What the remote lane has written, for the list of texts."""
    return {
        "name": run.name,
        "title": title(run.name),
        "badge": "failed" if failure else MAY_DIFFER,
        "is_identical": None,
        "difference": failure,
        "parts": (run.text, "", ""),
    }


def live_output_html(runs: Sequence[Run]) -> Markup:
    """The text of the remote lane while the race runs; nothing before there is some."""
    written = [run for run in runs if isinstance(run, RemoteRun) and run.text]
    if not written:
        return Markup()
    output = remote_output(written[-1], written[-1].failure)
    return render_macro("race.html", "outputs", outputs=[output], is_live=True)
