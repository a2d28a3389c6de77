"""The prompts that a race comes with: assets/race/prompts.jsonl, one `{"kind": "code", "text": "..."}` a line."""

import json

from app.race_messages import RacePrompt, TextKind
from app.settings import assets_dir


def ready_prompts() -> tuple[RacePrompt, ...]:
    """All ready-made prompts, in the file's order."""
    lines = (assets_dir() / "race" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(RacePrompt(**json.loads(line)) for line in lines if line.strip())


def next_prompt(prompts: tuple[RacePrompt, ...], kind: TextKind, text: str) -> str:
    """The prompt of this kind behind the one with this text, round and round; "" where there is none."""
    texts = [prompt.text for prompt in prompts if prompt.kind == kind]
    if not texts:
        return ""
    return texts[(texts.index(text) + 1) % len(texts)] if text in texts else texts[0]
