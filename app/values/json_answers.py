"""JSON answers of a chat: their JSON Schema, and its translation for the grammar library.

Nothing here compiles a schema, because compiling a stranger's schema can crash the process. The engine checks in a
separate process whether replies can be made to match a schema (`check_grammar`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import BadOption
from app.values.dataclass_json import parse_json
from app.values.logits import Grammar

LONGEST_SCHEMA = 500_000
KNOWN_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)
"""The formats of strings that the grammar library can enforce. JSON Schema defines other formats as
annotations only."""
LOOKAROUND = re.compile(r"\(\?<?[=!]")
"""The beginning of a look-around in a regular expression. No grammar enforces it; pydantic uses it for Decimal."""
VALUES = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose values are data, not schemas."""
BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions"))
"""Keywords whose values map names to schemas."""
JOINING = frozenset(("allOf", "anyOf", "oneOf", "$ref"))
"""Keywords that may add properties to an object's own."""
ANY_OBJECT = '{"type": "object"}'


@dataclass(frozen=True, slots=True)
class JsonAnswers:
    """Whether answers are JSON, and the text of their JSON Schema; "" allows any object."""

    is_on: bool = False
    schema: str = ""

    @property
    def grammar(self) -> Grammar | None:
        """The grammar that an answer has to match, if any. Raises BadOption for a `schema_problem`."""
        if not self.is_on:
            return None
        if problem := schema_problem(self.schema):
            raise BadOption(problem)
        return Grammar("json_schema", self.schema.strip() or ANY_OBJECT)


def schema_problem(text: str) -> str:
    """Return why this text is not a JSON object, or is too long; "" for a JSON object or an empty text."""
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


def for_grammar(schema: Any) -> tuple[Any, list[str]]:
    """Return the schema that the grammar library gets, and the keywords that it does not enforce.

    Objects get only the properties that the schema names, because a small model would make up more without end.
    This does not apply if the schema sets additionalProperties, combines schemas, or requires other properties."""
    try:
        translation = _Translation(schema)
        return translation.of(schema), sorted(translation.left_out)
    except (AttributeError, TypeError):  # the library reports which keyword has a value of a wrong type
        return schema, []


class _Translation:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._has_parts = _has_parts(root)
        self.left_out: set[str] = set()

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.of(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        found = {key: self._value(key, value) for key, value in schema.items()}
        if found.get("format") not in (None, *KNOWN_FORMATS):
            del found["format"]
        if LOOKAROUND.search(str(found.get("pattern", ""))):
            del found["pattern"]
            self.left_out.add("pattern")
        if found.pop("uniqueItems", False) is True:
            self.left_out.add("uniqueItems")
            found = _limited(found)
        if "oneOf" in found and not _are_exclusive(schema):
            self.left_out.add("oneOf")
        if "propertyNames" in found:
            found = self._with_names(found)
        is_whole = not self._has_parts and not JOINING & found.keys()
        if (
            "properties" in found
            and is_whole
            and set(found.get("required", ())) <= found["properties"].keys()
        ):
            found.setdefault("additionalProperties", False)
        return found

    def _value(self, key: str, value: Any) -> Any:
        if key in VALUES:
            return value
        if key in BY_NAME:
            value = value or {}  # PHP writes an empty object as []
            return {name: self.of(one) for name, one in value.items()}
        return self.of(value)

    def _with_names(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return an object's schema with its propertyNames as properties. If that is impossible, adds propertyNames
        to `left_out`."""
        names = self._referred(schema.pop("propertyNames"))
        known = names.get("enum", [names["const"]] if "const" in names else [])
        of_any = schema.get("additionalProperties", True)
        if (known or "pattern" in names) and not {"properties", "patternProperties"} & schema.keys():
            by_name = dict.fromkeys(map(str, known), of_any) if known else {names["pattern"]: of_any}
            kind = "properties" if known else "patternProperties"
            return {**schema, kind: by_name, "additionalProperties": False}
        if names.keys() - {"type", "title", "description"}:
            self.left_out.add("propertyNames")
        return schema

    def _referred(self, schema: Any) -> Mapping[str, Any]:
        """Return the schema, or the definition to which its $ref points."""
        name = schema.get("$ref", "") if isinstance(schema, dict) else ""
        definitions = self._root.get("$defs", {}) if isinstance(self._root, dict) else {}
        found = definitions.get(str(name).removeprefix("#/$defs/"), schema)
        return found if isinstance(found, dict) else {}


def _has_parts(schema: Any) -> bool:
    """Return whether any part of the schema combines several schemas with allOf."""
    if isinstance(schema, list):
        return any(map(_has_parts, schema))
    if not isinstance(schema, dict):
        return False
    return len(schema.get("allOf") or ()) > 1 or any(map(_has_parts, schema.values()))


def _limited(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an array's schema. An array of enumerated values gets at most as many items as there are values."""
    items = schema.get("items")
    if not isinstance(items, dict) or not isinstance(items.get("enum"), list):
        return schema
    return {**schema, "maxItems": min(len(items["enum"]), schema.get("maxItems", len(items["enum"])))}


def _are_exclusive(schema: dict[str, Any]) -> bool:
    """Return whether the branches of a oneOf have different types, or a discriminator tells which branch
    applies."""
    branches = schema["oneOf"] if isinstance(schema["oneOf"], list) else []
    kinds = [str(one.get("type")) for one in branches if isinstance(one, dict) and one.get("type")]
    return "discriminator" in schema or len(set(kinds)) == len(branches)
