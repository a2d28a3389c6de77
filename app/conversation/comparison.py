"""Compares a reply written with lookahead and one written without, in words."""

from itertools import takewhile

from app.values.chat import MessageContent
from app.values.display_text import counted, seconds_in_words


def comparison_in_words(*replies: MessageContent) -> str:
    """Return whether two replies, one of them written with lookahead, have the same text, and their times.

    The time of reading the prompt does not count, because it is the same for both."""
    made = [reply.provenance for reply in replies if reply.provenance]
    fast, slow = (
        seconds_in_words(each.statistics.seconds)
        for each in sorted(made, key=lambda each: each.decoder == "plain")
    )
    times = f"{fast} with lookahead against {slow} without"
    if len({reply.text for reply in replies}) == 1:
        return f"Same text: {times}."
    words = zip(*(reply.text.split() for reply in replies), strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], words))
    why = (
        "In float32 they must be the same unless the chat was changed in between."
        if made[0].model.dtype == "float32"
        else f"In {made[0].model.dtype} the size of a step may change how numbers are rounded."
    )
    return f"The texts differ after {counted(same, 'word')} ({times}). {why}"
