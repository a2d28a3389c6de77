"""Ends a thought after a number of tokens, by allowing only the tokens that close it.

With a budget of 3 tokens, and a closing of two:

    reply     <think> hm so well </think> \\n\\n Yes.
    forced                       ^        ^
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from app.engine.sampling.penalties import Process
from app.values.chat_format import ReplyFormat

MOST_FORCED = 64
"""Maximum number of tokens that are forced, far more than any closing has."""


def thought_budget(
    budget: int,
    reply: ReplyFormat,
    is_open: bool,
    reply_start: int,
    first_written: int,
    encode: Callable[[str], Sequence[int]],
    decode: Callable[[Sequence[int]], str],
) -> Process:
    """Make the process that closes the thought of a reply after `budget` tokens.

    The reply begins at index `reply_start` of the history, and the first token that the model writes is at
    `first_written`. With `is_open` the prompt has opened the thought."""
    opening = 0 if is_open else len(encode(reply.thought_opening))
    limit = max(reply_start + opening + budget, first_written)

    @lru_cache(4)
    def closing(before: tuple[int, ...]) -> Sequence[int]:
        """Return the tokens that close the thought; none if no thought is open after these tokens."""
        text = decode(before)
        begins = is_open or text.lstrip().startswith(reply.thought_opening.strip())
        if not begins or reply.thought_closing.strip() in text:
            return ()
        end = reply.thought_end
        written = next(n for n in range(len(end), -1, -1) if text.endswith(end[:n]))
        return encode(end[written:])[:MOST_FORCED]

    def process(logits: Tensor, history: Sequence[int]) -> Tensor:
        index = len(history) - limit
        if not 0 <= index < MOST_FORCED:
            return logits
        forced = closing(tuple(history[reply_start:limit]))
        if index >= len(forced):
            return logits
        return torch.full_like(logits, -torch.inf).index_fill(
            0, logits.new_tensor([forced[index]]).long(), 0.0
        )

    return process
