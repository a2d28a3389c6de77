"""A thought as the page shows it: folded under how long it took."""


def thought_summary(seconds: float, is_thinking: bool) -> str:
    """What stands over a folded thought: "Thought for 3.2 s"."""
    if is_thinking:
        return "Thinking…"
    if seconds <= 0:
        return "Thought"
    minutes, rest = divmod(round(seconds), 60)
    return f"Thought for {minutes} min {rest} s" if minutes else f"Thought for {seconds:.1f} s"


def thought_html(html: str, seconds: float = 0.0, is_thinking: bool = False) -> str:
    """A rendered thought, folded unless it is being written."""
    state = " open" if is_thinking else ""
    summary = thought_summary(seconds, is_thinking)
    return f'<details class="thought"{state}><summary>{summary}</summary><div>{html}</div></details>'
