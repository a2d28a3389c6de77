"""The format that a client requests for the answer, and its grammar: a JSON Schema, a pattern or rules."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.errors import ApiError
from app.values.json_answers import for_grammar
from app.values.logits import Grammar

ANYTHING = {"type": "object"}
OPTIONS = {"x-guidance": {"whitespace_pattern": "[ \\n]?", "coerce_one_of": True}}


class ResponseFormat(BaseModel):
    """The format of the answer. The types `regex` and `grammar` (in Lark's syntax) are Foresight's own."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema", "regex", "grammar"] = "text"
    json_schema: dict[str, Any] | None = None
    flat_schema: Any = Field(None, alias="schema")
    """Other servers take the schema here."""
    regex: str | None = None
    grammar: str | None = None


def form_grammar(wanted: ResponseFormat | None, param: str = "response_format") -> Grammar | None:
    """Return the grammar of an answer's format; None for free text. Raises ApiError."""
    match wanted.type if wanted else "text":
        case "json_object" | "json_schema" as kind:
            default = ANYTHING if kind == "json_object" else None
            places = ((wanted.json_schema or {}).get("schema"), wanted.flat_schema, default) if wanted else ()
            schema = next((one for one in places if one is not None), None)
            if not isinstance(schema, dict):
                raise ApiError(f"{param} needs a JSON Schema as json_schema.schema.", param)
            return Grammar("json_schema", json.dumps(schema))
        case "regex" | "grammar" as kind:
            source = getattr(wanted, kind)
            if not source:
                raise ApiError(f"{param} of type {kind} needs {kind}.", param)
            return Grammar("regex" if kind == "regex" else "lark", source)
    return None


def json_rule(schema: Any) -> str:
    """Write a rule for JSON that matches a schema; a schema may also be true or false."""
    if not isinstance(schema, dict):
        return f"%json {json.dumps(schema)}"
    schema, _ = for_grammar(schema)
    typed = schema if "type" in schema or not schema.get("properties") else {"type": "object", **schema}
    return "%json " + json.dumps({**typed, **OPTIONS})
