"""Patterns that find the parts of tool calls. They are made from the format in which a model writes its calls.

White space between the parts may differ, because models vary it. The patterns are compiled by the package `regex`,
which reports whether more text could complete a match.
"""

import ast
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex

from app.values.chat_format import ANY, KEY, CallFormat
from app.values.dataclass_json import json_text, parse_json

NAME = r"(?P<name>[\w./-]++)"
STRING = r'"(?:[^"\\]|\\.)*+"'
BARE_KEY = r"""[^\s"'{}()\[\],:=<>](?:[^"'{}()\[\],:=<>\n]*[^\s"'{}()\[\],:=<>])?"""
"""The key of a pair without quotes. It may have spaces inside."""
NEVER = "(?!)"
PYTHON_TAG = "<|python_tag|>"
"""The tag before a call that is a bare JSON object. A call with which the reply begins needs no tag."""
_PIECES = re.compile(rf"(\s+|{ANY}|{KEY})")
_MEANINGS = {ANY: r"[\w.:-]*?", KEY: "(?P=key)"}
_LAST_TAG = re.compile(r"(?:<[^<>]+>|\[[^\[\]]+\])$")
_TYPES = {
    str: "string", dict: "object", list: "array", bool: "boolean", int: "integer", float: "number",
    type(None): "null",
}  # fmt: skip
DEFINITIONS = ("$defs", "definitions")
"""Keywords whose values map names to the schemas to which `$ref` refers."""
WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True, slots=True)
class CallPatterns:
    """The patterns that find calls of one format.

    A call is one of the `openings`, a `head` up to the arguments, the arguments, and a `tail`. After the call there
    is `more` (the head of another call) or the parts of the `end`. `parameter` matches an argument with tags of
    its own, or the key of an argument that is a pair of key and value. If the format `is_bare`, a reply that begins
    with an object or a list is read as a call; if the format `is_open`, each reply is read as if an opening came
    before it."""

    form: CallFormat
    openings: tuple[str, ...]
    head: Any
    tail: Any
    more: Any
    end: tuple[str, ...]
    parameter: Any
    is_bare: bool
    is_open: bool

    def name_in(self, head: Any) -> str:
        found = head.groupdict()
        return str(parse_json(found["json"], strict=False) if found.get("json") else found["name"])

    def value(self, found: Any, schema: Any) -> Any:
        """Return the value of a matched argument. An object or a list may be written as nested arguments."""
        text = found["value"]
        if text is None:
            return found["data"]
        kinds, members, end = kinds_of(schema), list[Any](), 0
        while kinds and "string" not in kinds and (one := self.parameter.match(text, end)):
            members.append(one)
            end = one.end()
        if not members or text[end:].strip():
            return typed(text, schema)
        if "array" in kinds and member_schema(schema, members[0]["key"]) is None:
            items = next(
                (with_definitions(one["items"], one) for one in alternatives(schema) if "items" in one), None
            )
            return [self.value(one, items) for one in members]
        return {one["key"]: self.value(one, member_schema(schema, one["key"])) for one in members}


@lru_cache(64)
def call_patterns(form: CallFormat) -> CallPatterns:
    is_object = form.kind == "object"
    before = form.before_name.partition("{")[0] if is_object and "{" not in form.begin else form.before_name
    start = form.begin.partition("{")[0] + ("" if "{" in form.begin else before)
    opening = form.opening
    rest = start[start.find(opening) + len(opening) :]
    # some models leave out the first tag
    second = re.match(r"\s*(<[^<>\s]+>?)", before if form.begin else rest)
    is_bare, is_open = is_object and not opening, not opening and form.kind == "json"
    first = PYTHON_TAG if is_bare else form.between if is_open else opening
    openings = tuple(filter(None, (first, second and second[1])))
    inner = _object_head(form) if is_object else NAME + _after_name(form)
    closing = form.after_arguments.partition("}")[2] if is_object else form.after_arguments
    between = form.between.strip(", \n;")
    return CallPatterns(
        form,
        openings,
        _compiled(_loose(rest) + inner),
        _compiled(
            (rf"(?:\s*,\s*{STRING}\s*:\s*(?:{STRING}|[\w.]+))*\s*\}}\s*\}}?" if is_object else "")
            + _loose(closing)
        ),
        _compiled(r"\s*[,;]?\s*" + ((f"(?:{_loose(between)})?" if between else "") + _loose(before)) + inner),
        ("]",) if is_bare else tuple(re.findall(r"<[^<>]+>|\w+|\S", form.end)),
        _compiled(_parameter(form)),
        is_bare,
        is_open,
    )


def _compiled(source: str) -> Any:
    return regex.compile(source, regex.DOTALL)


def _exact(text: str) -> str:
    """Return a pattern of a text. White space may be added or left out between two tags, and wherever the
    text has white space."""
    parts = filter(None, _PIECES.split(text.replace("><", "> <")))
    return "".join(_MEANINGS.get(part) or (re.escape(part) if part.strip() else r"\s*") for part in parts)


def _loose(text: str) -> str:
    return r"\s*" + _exact(text)


def _object_head(form: CallFormat) -> str:
    """Return a pattern of a JSON object from its beginning up to its arguments, which must follow the name."""
    if not form.name_key:
        return rf"\s*\[?\s*\{{\s*(?P<json>{STRING})\s*:\s*(?=\{{)"
    keys = rf'\s*,\s*"(?:arguments|parameters|{re.escape(form.arguments_key)})"\s*:\s*(?=\{{)'
    others = rf'(?:"(?!(?:name|{re.escape(form.name_key)})")\w+"\s*:\s*{STRING}\s*,\s*)*'
    return rf'\s*\[?\s*\{{\s*{others}"(?:name|{re.escape(form.name_key)})"\s*:\s*(?P<json>{STRING}){keys}'


def _after_name(form: CallFormat) -> str:
    """Return a pattern of the text between a name and the arguments.

    If the arguments are JSON, up to 80 characters of a line may precede the last tag, because models vary the text
    there."""
    if form.kind != "json":
        follows = (
            ""
            if form.after_name.strip()
            else rf"(?={_loose(form.before_key)}|{_loose(form.after_arguments)})"
        )
        return _loose(form.after_name) + follows
    tag = _LAST_TAG.search(form.after_name.strip())
    return (rf"[^{{}}\n]{{0,80}}?{re.escape(tag[0])}" if tag else _loose(form.after_name)) + r"\s*(?=\{)"


def _parameter(form: CallFormat) -> str:
    """Return a pattern of an argument in tags, or of the key of a pair; NEVER for other formats."""
    if form.kind == "pairs":
        return rf"\s*(?P<key>{BARE_KEY}|{STRING})\s*{re.escape(form.after_key.strip())}\s*"
    if form.kind != "tags":
        return NEVER
    start = "(?!/)" if form.before_key.endswith("<") else ""  # the tag that ends the call is no key
    key = rf'{_loose(form.before_key)}(?P<key>{start}[^<>"\n]+?){_loose(form.after_key.rstrip())}'
    blank = form.after_key[len(form.after_key.rstrip()) :]
    ending = form.after_value.lstrip()
    # The white space with which `after_value` begins is not part of the value; further white space is.
    line = form.after_value.removesuffix(ending)
    value = r"(?:<!\[CDATA\[(?P<data>.*?)\]\]>|(?!<!\[CDATA\[)(?P<value>.*?))"
    return rf"{key}(?:{blank})?{value}(?:{line})?{_exact(ending)}"


def typed(text: str, schema: Any) -> Any:
    """Parse an argument's value as JSON, or in Python's notation if the schema allows no strings.

    Returns the text itself if the schema is missing or allows only strings, if the text cannot be parsed, or if
    the schema allows strings and the value has none of its types."""
    kinds = kinds_of(schema)
    if kinds == {"string"} or not isinstance(schema, dict):
        return text
    try:
        value = parse_json(text)
    except ValueError:
        with suppress(ValueError):
            return text if "string" in kinds else parse_json(loose_json(text, ""))
        return text
    return text if "string" in kinds and not _types_of(value) & kinds else value


def _types_of(value: Any) -> set[str]:
    """Return the names that JSON Schema has for the value's type; an integer is a number, too."""
    return {_TYPES[type(value)]} | ({"number"} if type(value) is int else set())


def kinds_of(schema: Any) -> set[str]:
    """Return the JSON types that a schema's alternatives name, or else those of their `enum` and `const` values."""
    kinds = set[str]()
    for one in alternatives(schema):
        named = one.get("type")
        kinds |= {name for name in (_listed(named) or [named]) if isinstance(name, str)} or {
            name for value in values_of([one]) for name in _types_of(value)
        }
    return kinds


def values_of(schemas: Iterable[dict[str, Any]]) -> list[Any]:
    """Return the values to which these schemas are restricted by `enum` or `const`."""
    return [
        value
        for one in schemas
        for value in (*_listed(one.get("enum")), *([one["const"]] if "const" in one else []))
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def alternatives(schema: Any, followed: set[str] | None = None) -> list[dict[str, Any]]:
    """Return a schema and its alternatives: the definition to which it refers, the parts of its `anyOf`, `oneOf`
    and `allOf`, and the alternatives of all these. Each result has the schema's definitions. Returns [] if the
    schema is not an object. References in `followed` are not followed again."""
    if not isinstance(schema, dict):
        return []
    followed = set() if followed is None else followed
    inner = [one for name in ("anyOf", "oneOf", "allOf") for one in _listed(schema.get(name))]
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        place, _, name = reference.removeprefix("#/").partition("/")
        known = schema.get(place) if place in DEFINITIONS else None
        inner.append(known.get(name) if isinstance(known, dict) else None)
    return [
        schema,
        *(one for some in inner for one in alternatives(with_definitions(some, schema), followed)),
    ]


def with_definitions(part: Any, schema: dict[str, Any]) -> Any:
    """Return a part of a schema with the schema's definitions, to which the part may refer."""
    return (
        {**{key: schema[key] for key in DEFINITIONS if key in schema}, **part}
        if isinstance(part, dict)
        else part
    )


def member_schema(schema: Any, key: str) -> Any:
    """Return the schema of an object's property; None if there is none."""
    found = ((one, one.get("properties") or {}) for one in alternatives(schema))
    return next((with_definitions(named[key], one) for one, named in found if key in named), None)


def loose_json(text: str, quote: str) -> str:
    """Translate a value to JSON. The value may have unquoted words, Python's True, False and None, and strings
    between single quotes or between two occurrences of `quote`."""
    quoted = f"{re.escape(quote)}.*?{re.escape(quote)}|" if len(quote) > 1 else ""
    key = rf"(?<=[{{,])\s*(?P<key>{BARE_KEY})(?=\s*:)"
    pattern = rf"{quoted}{key}|{STRING}|'(?:[^'\\]|\\.)*+'|\d[\w.+-]*|[^\W\d][\w.-]*"

    def translated(found: re.Match[str]) -> str:
        part = found[0]
        if found["key"]:
            return json_text(found["key"])
        if quoted and part.startswith(quote):
            return json_text(part[len(quote) : -len(quote)])
        if part[0] in "\"'":
            return _string(part)
        return part if part[0].isdigit() else WORDS.get(part) or json_text(part)

    return re.sub(pattern, translated, text.strip(), flags=re.DOTALL)


def _string(part: str) -> str:
    try:
        plain = part.replace("\n", "\\n")
        return json_text(parse_json(part, strict=False) if part[0] == '"' else ast.literal_eval(plain))
    except (ValueError, SyntaxError):
        return json_text(part[1:-1])


def value_end(text: str, quote: str, ends: str) -> int:
    """Return the index at which an argument's value ends, which is the first character of `ends` outside strings
    and brackets; -1 if the value is incomplete.

    A string is between two occurrences of a long `quote` or is JSON, as grammars write it. With a short `quote` it
    may also be between single quotes."""
    marks = ('"',) if len(quote) > 1 else ('"', "'")
    other = f"{re.escape(quote)}.*?{re.escape(quote)}" if len(quote) > 1 else r"'(?:[^'\\]|\\.)*+'"
    depth = 0
    for found in re.finditer(rf"{other}|{STRING}|[\[\](){{}}]|[{re.escape(ends)}]|[\"'<]", text, re.DOTALL):
        part = found[0]
        if not depth and part in ends:
            return found.start()
        depth += (part in "[({") - (part in "])}") if len(part) == 1 else 0
        if part in marks or (part == "<" and text.startswith(quote, found.start())):
            return -1  # a string that is not complete
    return -1
