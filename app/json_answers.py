"""Answers as JSON: whether a chat wants them, of which JSON Schema, and what is wrong with a schema.

A schema is checked by llguidance, which also holds the replies to it: what it accepts can be used.
"""

import json
from dataclasses import dataclass

from app.errors import BadOption
from app.logits_settings import Grammar

ANY_OBJECT = '{"type": "object"}'


@dataclass(frozen=True, slots=True)
class JsonAnswers:
    """Whether answers are JSON, and the text of their JSON Schema as it was typed; "" allows any object."""

    is_on: bool = False
    schema: str = ""

    @property
    def grammar(self) -> Grammar | None:
        """What an answer has to match. Raises BadOption for a text that is no schema."""
        if not self.is_on:
            return None
        if problem := schema_problem(self.schema):
            raise BadOption(problem)
        return Grammar("json_schema", self.schema.strip() or ANY_OBJECT)


def schema_problem(text: str) -> str:
    """Why this is no JSON Schema that answers can be held to, as a sentence; "" where it is one, or empty."""
    if not text.strip():
        return ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"The schema is not JSON ({error}). Correct it, or empty the box."
    if not isinstance(found, dict):
        return 'A JSON Schema is an object, such as {"type": "object"}. Correct it, or empty the box.'
    if problem := _refusal(text):
        return f"Answers can't be held to this schema ({problem}). Change it, or empty the box."
    return ""


def _refusal(schema: str) -> str:
    # Imported here: most chats never need it.
    from llguidance import LLMatcher

    try:
        problem = str(LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema)))
    except ValueError as error:
        problem = str(error)
    return " ".join(problem.split())[:200].rstrip(".:")
