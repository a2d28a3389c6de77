"""Small pieces of HTML that the lists of models are made of. Every word of a stranger passes through `escape`."""

from html import escape

from app.model_messages import Fit, MemoryNeed, Verdict, gigabytes

PARTS = (("weights", "weights"), ("cache", "context"), ("rows", "steps"), ("runtime", "runtime"))
"""What takes memory: the field of `MemoryNeed`, and its word on the page."""
VERDICTS: dict[Verdict, str] = {"fits": "fits", "fits with int4": "tight", "too big": "big"}
"""How a verdict is coloured; it always stands there in words, too."""


def title(name: str, tag: str = "h4") -> str:
    """A model's name: its own part in ink, the organisation's in grey."""
    org, slash, own = name.rpartition("/")
    before = f"<span>{escape(org + slash)}</span>" if slash else ""
    return f"<{tag}>{before}{escape(own)}</{tag}>"


def fit_html(fit: Fit) -> str:
    """The bar, and the verdict in words."""
    verdict = f'<b class="verdict {VERDICTS[fit.verdict]}">{escape(fit.verdict.capitalize())}</b>'
    return f'<div class="fit">{bar(fit)}<p>{verdict} {escape(in_words(fit))}</p></div>'


def in_words(fit: Fit) -> str:
    """What the model needs, what is free, and how long a chat may get."""
    needs = f"needs {gigabytes(fit.need.total)} of {gigabytes(fit.memory.free)} free"
    if fit.verdict == "fits":
        return f"{needs} · chats up to {fit.longest_context:,} tokens"
    shorter = f" · {fit.longest_context:,} tokens of context would fit" if fit.longest_context else ""
    return f"{needs}, in {fit.precision}{shorter}"


def bar(fit: Fit) -> str:
    """What takes memory, part by part, against what is free: the mark where it ends."""
    scale = max(fit.memory.free, fit.need.total, 1)
    segments = "".join(
        f'<i class="of-{part}" style="width:{getattr(fit.need, part) / scale:.2%}"></i>' for part, _ in PARTS
    )
    end = f'<s style="left:{fit.memory.free / scale:.2%}"></s>' if fit.need.total > fit.memory.free else ""
    return (
        f'<div class="bar" role="img" aria-label="{escape(parts_in_words(fit.need))}"'
        f' title="{escape(parts_in_words(fit.need))}">{segments}{end}</div>'
    )


def parts_in_words(need: MemoryNeed) -> str:
    """ "weights 1.2 GB, context 60 MB, …"."""
    return ", ".join(f"{word} {gigabytes(getattr(need, part))}" for part, word in PARTS)


def legend() -> str:
    """What the bar's colours mean."""
    words = "".join(f'<li class="of-{part}">{word}</li>' for part, word in PARTS)
    return f'<ul class="legend" aria-label="Colours of the bars">{words}</ul>'


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
