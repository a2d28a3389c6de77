"""Answers as JSON: whether a chat wants them, of which JSON Schema, and whether that is JSON at all.

Whether replies can be held to a schema is for the engine to say (`check_grammar`), which asks a process of its own:
compiling a stranger's schema can end the process that does it, so nothing here compiles one.
"""

from dataclasses import dataclass

from app.errors import BadOption
from app.values.dataclass_json import parse_json
from app.values.logits import Grammar

LONGEST_SCHEMA = 500_000
"""Characters of a schema that are looked at."""
ANY_OBJECT = '{"type": "object"}'


@dataclass(frozen=True, slots=True)
class JsonAnswers:
    """Whether answers are JSON, and the text of their JSON Schema as it was typed; "" allows any object."""

    is_on: bool = False
    schema: str = ""

    @property
    def grammar(self) -> Grammar | None:
        """What an answer has to match. Raises BadOption if the text is not a schema."""
        if not self.is_on:
            return None
        if problem := schema_problem(self.schema):
            raise BadOption(problem)
        return Grammar("json_schema", self.schema.strip() or ANY_OBJECT)


def schema_problem(text: str) -> str:
    """Return a sentence on why this text is no JSON object; "" where it is one, or empty."""
    if not text.strip():
        return ""
    if (length := len(text)) > LONGEST_SCHEMA:
        return f"The schema has {length:,} characters, at most {LONGEST_SCHEMA:,} are read. Shorten it."
    try:
        found = parse_json(text)
    except ValueError as error:
        return f"The schema is not JSON ({error}). Correct it, or empty the box."
    if not isinstance(found, dict):
        return 'A JSON Schema is an object, such as {"type": "object"}. Correct it, or empty the box.'
    return ""
