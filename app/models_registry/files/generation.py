"""A model's own sampling temperature, from its generation_config.json."""

from pathlib import Path

from app.values.dataclass_json import parse_json

LARGEST = 2_000_000
"""Bytes of the file."""
USUAL = 0.7
"""The temperature of a model that names none."""
HIGHEST = 2.0


def own_temperature(folder: Path) -> float:
    """The temperature that a model asks for: 0 where it says not to sample, `USUAL` where it does not say."""
    file = folder / "generation_config.json"
    try:
        if not file.is_file() or file.stat().st_size > LARGEST:
            return USUAL
        config = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return USUAL
    if not isinstance(config, dict):
        return USUAL
    if config.get("do_sample") is False:
        return 0.0
    asked = config.get("temperature")
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked <= HIGHEST:
        return USUAL
    return float(asked)
