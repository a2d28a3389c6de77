"""Replies of trained models: whether lookahead writes plain decoding's tokens, and how fast each decoder is."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.values.messages import DecoderName, Decoding, ModelChoice, Options, Prompt, Request
from tools.gpu_report.plan import Plan, Row
from tools.prompts import questions, stories
from tools.same_text import locate, written

DECODERS: tuple[DecoderName, ...] = ("plain", "lookahead", "auto")


def replies(plan: Plan) -> Iterator[Row]:
    """Yield, by model, type and decoder, tokens per step and per second, and how many replies equal plain's."""
    for folder in plan.models:
        session = Session(locate)
        for dtype in plan.reply_dtypes:
            choice = ModelChoice(str(folder), dtype, "cuda" if plan.device == "cuda" else "cpu")
            info = session.open(choice, no_progress).info
            plain: list[tuple[int, ...]] = []
            for decoder in DECODERS:
                options = Options(
                    decoding=Decoding(decoder), max_new_tokens=plan.reply_tokens, ignore_eos=True
                )
                requests = (Request(choice, one, options, is_cold=True) for one in _prompts(folder, plan))
                found = [written(session, request) for request in requests]
                plain = plain or [one.tokens for one in found]
                same = sum(one.tokens == theirs for one, theirs in zip(found, plain, strict=True))
                numbers = [one.statistics for one in found]
                tokens = sum(each.tokens for each in numbers)
                yield {
                    "model": folder.name,
                    "dtype": dtype,
                    "decoder": decoder,
                    "same as plain": f"{same} of {len(plain)}",
                    "tokens per step": tokens / sum(each.steps for each in numbers),
                    "tokens per second": tokens / sum(each.seconds for each in numbers),
                    "note": info.note("same-text"),
                }
        session.close()


def _prompts(folder: Path, plan: Plan) -> list[Prompt]:
    endless: Iterator[Prompt] = stories(0) if "stories" in folder.name else questions(0)
    return list(islice(endless, plan.prompts))
