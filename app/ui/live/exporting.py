"""Steps as JSON: ids as the engine had them, texts beside them, and what is needed to know how they came."""

import json
from dataclasses import asdict
from typing import Any

from app.ui.live.port import Recording, SeenStep
from app.ui.live.xray import Texts, words_of

FORMAT, VERSION = "foresight-xray", 1


def exported(recording: Recording, texts: Texts) -> str:
    """The whole recording as JSON; `texts` there are by token id."""
    numbers = recording.statistics
    words = words_of(recording.steps, (), texts)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "settings": dict(recording.settings),
        "statistics": asdict(numbers)
        | {"tokens_per_step": numbers.tokens_per_step, "hit_rate": numbers.hit_rate},
        "texts": {str(token): text for token, text in words.items()},
        "steps": [_step(number, step) for number, step in enumerate(recording.steps, start=recording.first)],
    }
    return json.dumps(document, ensure_ascii=False)


def _step(number: int, step: SeenStep) -> dict[str, Any]:
    return {"number": number, **asdict(step.trace), "written": step.token_ids}
