"""The body of a request: unknown fields are ignored, and its texts are Unicode."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from app.text_normalisation import without_surrogates


class Body(BaseModel):
    """What every request's body is."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _whole_characters(cls, given: Any) -> Any:
        """JSON can spell half of a character, which no tokenizer reads."""
        try:
            return _whole(given)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    return value
