"""Whether a model fits, as a bar of what takes memory and in words."""

from app.values.model import Fit, MemoryNeed, Verdict, gigabytes

MEMORY_PARTS = (("weights", "weights"), ("cache", "context"), ("rows", "steps"), ("runtime", "runtime"))
"""What takes memory: the field of `MemoryNeed`, and its name on the page."""
COLOURS: dict[Verdict, str] = {"fits": "fits", "fits with int4": "tight", "too big": "big"}
"""A verdict's CSS class. The verdict is always there in words, too."""


def fit_values(fit: Fit) -> dict[str, object]:
    """The memory bar, and the verdict in words."""
    scale = max(fit.memory.free, fit.need.total, 1)
    return {
        "verdict": fit.verdict.capitalize(),
        "colour": COLOURS[fit.verdict],
        "words": _fit_words(fit),
        "parts": parts_words(fit.need),
        "widths": [(part, share(getattr(fit.need, part), scale)) for part, _ in MEMORY_PARTS],
        "limit": share(fit.memory.free, scale) if fit.need.total > fit.memory.free else "",
    }


def _fit_words(fit: Fit) -> str:
    needs, free = gigabytes(fit.need.total), gigabytes(fit.memory.free)
    if fit.verdict == "fits":
        return f"needs {needs} of {free} free · chats up to {fit.longest_context:,} tokens"
    shorter = f" · {fit.longest_context:,} tokens of context would fit" if fit.longest_context else ""
    return f"needs {needs} in {fit.precision}, {free} are free{shorter}"


def parts_words(need: MemoryNeed) -> str:
    """ "weights 1.2 GB, context 60 MB, …"."""
    return ", ".join(f"{name} {gigabytes(getattr(need, part))}" for part, name in MEMORY_PARTS)


def share(part: int, whole: int) -> str:
    """A part of a whole as a width for CSS."""
    return f"{part / max(1, whole):.2%}"
