"""What a request cost, in OpenAI's form, and what only Foresight can tell."""

from collections.abc import Sequence
from typing import Any

from app.api.engine_reply import EngineReply
from app.values.messages import Request


def usage(replies: Sequence[EngineReply]) -> dict[str, Any]:
    """The tokens of all choices. The prompt counts once.

    Accepted and rejected prediction tokens are those that were drafted, from whatever source."""
    counts = [reply.count for reply in replies]
    prompt, completion = counts[0].statistics.prompt_tokens, sum(len(count.token_ids) for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": counts[0].statistics.reused_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "accepted_prediction_tokens": sum(count.accepted for count in counts),
            "rejected_prediction_tokens": sum(count.rejected for count in counts),
            "reasoning_tokens": 0,
            "audio_tokens": 0,
        },
    }


def foresight_block(reply: EngineReply, request: Request) -> dict[str, Any]:
    """How the (first) reply was decoded."""
    numbers = reply.count.statistics
    return {
        "decoder": reply.finished.decoder,
        "seed": request.options.sampling.seed,
        "tokens_per_step": round(numbers.tokens_per_step, 4),
        "hit_rate": round(numbers.hit_rate, 4),
        "rows_per_step": round(numbers.rows_per_step, 4),
        "tokens_per_second": round(numbers.tokens_per_second, 2),
        "sources": dict(reply.count.sources),
        "draft_model": reply.finished.model.draft_model,
        "time_to_first_token": round(numbers.time_to_first_token, 4),
    }
