"""Answers as JSON: whether a chat wants them, by which JSON Schema, and whether the schema is a JSON object.

Nothing here compiles a schema, because compiling a stranger's schema can crash the process. The engine checks in a
separate process whether replies can be made to match a schema (`check_grammar`).
"""

from dataclasses import dataclass

from app.errors import BadOption
from app.values.dataclass_json import parse_json
from app.values.logits import Grammar

LONGEST_SCHEMA = 500_000
"""Maximum number of characters of a schema."""
ANY_OBJECT = '{"type": "object"}'


@dataclass(frozen=True, slots=True)
class JsonAnswers:
    """Whether answers are JSON, and the text of their JSON Schema as it was typed; "" allows any object."""

    is_on: bool = False
    schema: str = ""

    @property
    def grammar(self) -> Grammar | None:
        """The grammar that an answer has to match, if any. Raises BadOption if `schema` is not a JSON object."""
        if not self.is_on:
            return None
        if problem := schema_problem(self.schema):
            raise BadOption(problem)
        return Grammar("json_schema", self.schema.strip() or ANY_OBJECT)


def schema_problem(text: str) -> str:
    """Return a sentence that explains why this text is not a JSON object; "" if it is one, or empty."""
    if not text.strip():
        return ""
    if (length := len(text)) > LONGEST_SCHEMA:
        return f"The schema has {length:,} characters; at most {LONGEST_SCHEMA:,} are allowed. Shorten it."
    try:
        found = parse_json(text)
    except ValueError as error:
        return f"The schema is not JSON ({error}). Correct it, or empty the box."
    if not isinstance(found, dict):
        return 'A JSON Schema is an object, such as {"type": "object"}. Correct it, or empty the box.'
    return ""
