"""What a draft model is expected to bring at first: it reads the same sentences as its target when both are loaded.

A few passes of each model tell how often the target goes on as the draft model expects. How far that model may be
believed when it is sure is no matter of this text, behind which n-grams know nothing: replies teach it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from app.engine.block.block import chain_block
from app.engine.drafters.draft_model import Proposer, prefilled
from app.engine.drafters.model_drafter import Lessons
from app.engine.runner.model_runner import ModelRunner
from app.values.messages import Sampling

TEXT = (
    "Here is how to make a simple vegetable soup. First, chop two onions, three carrots and a stick of celery. Heat"
    " some oil in a large pot and cook the vegetables for about five minutes, until they are soft. Then add a litre"
    " of water and a little salt, and let the soup cook on a low heat for half an hour.\n\nIf you have any"
    " questions, please feel free to ask."
)
ROWS, CHUNKS = 16, 4
"""Of the text one token is read alone, then so many chunks of so many rows."""
FIRST = 4
"""Tokens behind which neither model can know much."""
USUAL = 0.4
"""The share of tokens that n-grams guess without a draft model."""
BETWEEN = 4
"""A draft model with another tokenizer is asked about one token of so many: it writes words for each answer."""


def first_lessons(target: ModelRunner, draft: ModelRunner, text: Sequence[int], vocabulary: int) -> Lessons:
    """What both say of this text, as far as it is in the `vocabulary` of both; nothing where it is short."""
    text = _whole_chunks([token for token in text if token < vocabulary], min(target.context, draft.context))
    if not text:
        return Lessons()
    said, told = (logits_along(one, text)[FIRST:, :vocabulary].argmax(dim=-1) for one in (target, draft))
    return _lessons((said == told).float().mean().item())


def lessons_of_words(target: ModelRunner, draft: Proposer, text: Sequence[int]) -> tuple[Lessons, float]:
    """The same of a draft model with another tokenizer, and the seconds of a question; 0 for a short text."""
    text = _whole_chunks(text, target.context)
    if not text:
        return Lessons(), 0.0
    said = logits_along(target, text).argmax(dim=-1).tolist()
    before, right = draft.seconds, list[bool]()
    for place in range(FIRST, len(text), BETWEEN):
        draft.follow(text[: place + 1])
        right.append(said[place] in [token for token, _ in draft.propose((), Sampling())[:1]])
    seconds = (draft.seconds - before) / len(right)
    draft.forget()
    return _lessons(sum(right) / len(right)), seconds


def _lessons(agreeing: float) -> Lessons:
    return Lessons(max(agreeing - USUAL, 0.0))


def _whole_chunks(text: Sequence[int], context: int) -> Sequence[int]:
    chunks = min((min(len(text), context) - 1) // ROWS, CHUNKS)
    return text[: 1 + ROWS * chunks] if chunks > 0 else ()


def logits_along(runner: ModelRunner, text: Sequence[int]) -> Tensor:
    """Logits [len(text), vocab] behind each token of a text, which is dropped then. Few rows are run at a time."""
    runner.forget()
    found = [prefilled(runner, text[:1])[None].float().cpu()]
    for start in range(1, len(text), ROWS):
        chunk = text[start : start + ROWS]
        logits = runner.forward(chain_block(chunk, start, wanted=tuple(range(len(chunk)))))
        found.append(logits.float().cpu())  # the next pass may write over them
        runner.commit(range(len(chunk)))
    runner.forget()
    return torch.cat(found)
