"""Replies of trained models: whether lookahead writes plain decoding's tokens, and how fast each decoder is."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.values.messages import (
    DecoderName,
    Decoding,
    Finished,
    ModelChoice,
    ModelFolder,
    Options,
    Piece,
    Progress,
    Prompt,
    Request,
    Statistics,
)
from tools.gpu_report.plan import Plan, Row
from tools.prompts import questions, stories

DECODERS: tuple[DecoderName, ...] = ("plain", "lookahead", "auto")


def replies(plan: Plan) -> Iterator[Row]:
    """Yield, by model, type and decoder, tokens per step and per second, and how many replies equal plain's."""
    for folder in plan.models:
        session = Session(_locate)
        for dtype in plan.reply_dtypes:
            choice = ModelChoice(str(folder), dtype, "cuda" if plan.device == "cuda" else "cpu")
            info = session.open(choice, no_progress).info
            plain: list[tuple[int, ...]] = []
            for decoder in DECODERS:
                written = [
                    _reply(session, choice, prompt, decoder, plan) for prompt in _prompts(folder, plan)
                ]
                plain = plain or [tokens for tokens, _ in written]
                same = sum(ours == theirs for (ours, _), theirs in zip(written, plain, strict=True))
                numbers = [statistics for _, statistics in written]
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


def _locate(name: str, _progress: Progress) -> ModelFolder:
    return ModelFolder(Path(name), Path(name).name)


def _prompts(folder: Path, plan: Plan) -> list[Prompt]:
    endless: Iterator[Prompt] = stories(0) if "stories" in folder.name else questions(0)
    return list(islice(endless, plan.prompts))


def _reply(
    session: Session, choice: ModelChoice, prompt: Prompt, decoder: DecoderName, plan: Plan
) -> tuple[tuple[int, ...], Statistics]:
    """Write one cold reply of full length."""
    options = Options(decoding=Decoding(decoder), max_new_tokens=plan.reply_tokens, ignore_eos=True)
    events = list(session.events(Request(choice, prompt, options, is_cold=True), no_progress))
    finished = events[-1]
    assert isinstance(finished, Finished)
    pieces = (event for event in events if isinstance(event, Piece))
    return tuple(token for piece in pieces for token in piece.token_ids), finished.statistics
