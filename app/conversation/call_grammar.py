"""Writes grammars of calls, in Lark's syntax and in the format in which the model writes its calls.

Lark's syntax is that of the library llguidance, in which `%json` is followed by a JSON Schema."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.conversation.tool_call_patterns import (
    alternatives,
    kinds_of,
    member_schema,
    values_of,
    with_definitions,
)
from app.values.chat_format import ANY, HERMES, KEY, CallFormat
from app.values.dataclass_json import json_text
from app.values.json_answers import KNOWN_FORMATS, for_grammar
from app.values.logits import lark_text

OPTIONS = {"x-guidance": {"whitespace_pattern": "[ \\n]?", "coerce_one_of": True}}
NOTHING = {"type": "object", "properties": {}}
NOTES = frozenset(
    ("title", "description", "default", "examples", "deprecated", "$comment", "$defs", "definitions")
)
"""Keywords of JSON Schema that do not restrict a value."""
PLAIN = {"type": ["number", "boolean", "null"]}
"""The schema of values that are neither strings, objects nor arrays."""
PYTHON = {"boolean": ("True", "False"), "null": ("None",)}
"""Values, by their type, that some models write in Python's notation."""
OF_ALL = frozenset(
    (
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
    )
)
"""Keywords that restrict several arguments together, which rules of single arguments do not enforce."""


def calls_grammar(tools: Mapping[str, dict[str, Any]], most: int, form: CallFormat = HERMES) -> str:
    """Write a grammar of up to `most` calls of these tools, which are given as names and schemas.

    Line ends at the beginning may be left out or added, because models vary them, unless calls begin within a
    header as in gpt-oss's format."""
    rules, before = list[str](), form.before_name.lstrip("\n")
    line_ends = form.before_name.removesuffix(before)
    for place, (name, schema) in enumerate(tools.items()):
        heading = lark_text(f"{before}{json.dumps(name)[1:-1]}{form.after_name}")
        rules.append(f"call{place}: {heading} args{place} {lark_text(form.after_arguments)}".rstrip())
        rules += _arguments_rules(f"args{place}", schema, form)
    one = " | ".join(f"call{place}" for place in range(len(tools)))
    more = f"({lark_text(form.between + line_ends)} call){{0,{most - 1}}}" if most > 1 else ""
    begin = (form.begin + line_ends).lstrip("\n")
    varied = "" if (begin + before).startswith(" ") else "/\\n{1,4}/?"
    start = " ".join(filter(None, (varied, lark_text(begin), "call", more, lark_text(form.end))))
    return "\n".join([f"start: {start}", f"call: {one}", *rules])


def json_rule(schema: Any) -> str:
    """Write a rule for JSON that matches a schema; a schema may also be true or false."""
    return _json_rule(for_grammar(schema)[0])


def not_enforced(schema: dict[str, Any], form: CallFormat) -> set[str]:
    """Return the keywords of the arguments' schema that the grammar of a call does not enforce."""
    found = set(for_grammar(schema)[1])
    if form.kind in ("tags", "pairs"):
        found |= schema.keys() & OF_ALL
    members = [member_schema(schema, key) for key in _keys(schema) if form.kind == "tags"]
    for part in (one for each in members if kinds_of(each) == {"string"} for one in alternatives(each)):
        found |= {"pattern"} & part.keys() | ({"format"} if part.get("format") in KNOWN_FORMATS else set())
    return found


def _json_rule(schema: Any) -> str:
    if not isinstance(schema, dict):
        return f"%json {json.dumps(schema)}"
    typed = schema if "type" in schema or not schema.get("properties") else {"type": "object", **schema}
    return "%json " + json.dumps({**typed, **OPTIONS})


def _arguments_rules(name: str, schema: dict[str, Any], form: CallFormat) -> list[str]:
    """Write the rules of a call's arguments: a JSON object, or in "tags" and "pairs" a rule for each argument."""
    if form.kind not in ("tags", "pairs"):
        return [f"{name}: {json_rule(schema)}"]
    if form.has_own_values:
        return _OwnValues(name, for_grammar(schema)[0], form).rules
    rules, members = list[str](), dict[str, bool]()
    for number, (key, is_required) in enumerate(_keys(schema).items()):
        rule = f"{name}x{number}"
        member = with_definitions(schema["properties"][key], schema)
        is_text = str(kinds_of(member) == {"string"}).lower()  # an attribute of DeepSeek's tags
        head = lark_text(f"{form.before_key}{key}{form.after_key}".replace(ANY, is_text))
        rules += [f"{rule}: {head} {rule}value", _value_rule(f"{rule}value", member, form, key)]
        members[rule] = is_required
    separator = lark_text(form.after_value) if form.kind == "pairs" else ""
    return [f"{name}: {_members(members, separator)}", *rules]


def _keys(schema: Mapping[str, Any]) -> dict[str, bool]:
    """Return the names of an object's properties, required ones first, and whether they are required."""
    required = schema.get("required") or ()
    found = {key: key in required for key in schema.get("properties") or {}}
    return dict(sorted(found.items(), key=lambda one: not one[1]))


def _members(members: Mapping[str, bool], separator: str) -> str:
    """Write the rule of a sequence of members. Those that are not required, which come last, may be left out."""
    before = f"{separator} " if separator else ""
    required = f" {before}".join(one for one, is_required in members.items() if is_required)
    others = [one for one, is_required in members.items() if not is_required]
    rest = [f"({before}{one})?" for one in others]
    if required or not separator:
        return " ".join(filter(None, [required, *rest])) or json_text("")
    # the first member that is written has no separator before it
    first = (" ".join([one, *rest[place:]]) for place, one in enumerate(others, 1))
    return f"({' | '.join(first)})?" if others else json_text("")


def _value_rule(name: str, schema: Any, form: CallFormat, key: str) -> str:
    """Write the rule of an argument's value, with what ends it.

    A string is written as it is; in "pairs" it is JSON, like all other values. Some values may also be written in
    Python's notation, so that a model can choose the notation that it knows."""
    ending = form.after_value.replace(KEY, key)
    parts, kinds = alternatives(schema), kinds_of(schema)
    known = values_of(parts)
    if kinds != {"string"} or form.kind == "pairs":
        words = [word for kind in kinds if kind in PYTHON and "string" not in kinds for word in PYTHON[kind]]
        others = [] if known else sorted(map(json_text, words))
        if form.quote == "'" and kinds == {"string"} and _restrictions(schema) == {"type": "string"}:
            others.append(r"/'([^'\\]|\\.)*'/")
        value = " | ".join([json_rule(schema), *others])
        return f"{name}: ({value}) {'' if form.kind == 'pairs' else lark_text(ending)}".rstrip()
    if known:
        return f"{name}: ({' | '.join(json_text(str(one)) for one in known)}) {lark_text(ending)}"
    return _text_rule(name, parts, ending)


def _text_rule(name: str, parts: Iterable[Mapping[str, Any]], ending: str) -> str:
    """Write the rule of a text with the length that these schemas allow, and of what ends the text."""
    least, most = (next((one[key] for one in parts if key in one), "") for key in ("minLength", "maxLength"))
    return f"{name}[suffix={json_text(ending)}]: /(.|\\n){{{least or 0},{most}}}/"


class _OwnValues:
    """Writes the rules of arguments in a format that does not write values as JSON: {key:<|"|>text<|"|>,…}.

    A value becomes JSON if its schema has other keywords than these rules enforce. Both are read alike."""

    def __init__(self, name: str, schema: Any, form: CallFormat) -> None:
        """Write the `rules` of the arguments of this schema. The first rule has this name, as the others begin."""
        self._name, self._schema, self._form = name, schema, form
        self._named = dict[str, str]()  # rules by their source
        self._ends = tuple(map(lark_text, (form.after_key, form.after_value)))
        self.rules = [""]
        own = _restrictions(schema)
        properties = {key: own.get(key) for key in ("properties", "required")}
        self.rules[0] = f"{name}: {self._of_object(own) or self._of_object(properties) or json_text('')}"

    def _rule(self, source: str) -> str:
        """Add a rule unless there is one of this source, and return its name."""
        if source not in self._named:
            self._named[source] = name = f"{self._name}n{len(self._named)}"
            self.rules.append(f"{name}: {source}")
        return self._named[source]

    def _value(self, schema: Any) -> str:
        """Return the name of a rule for values of this schema."""
        found = self._any() if schema is True else ""
        if isinstance(schema, dict):
            own = _restrictions(schema)
            found = self._joined(own) if own else self._any()
        has_reference = "$ref" in json.dumps(schema)
        whole = with_definitions(schema, self._schema) if has_reference else schema
        return found or self._rule(_json_rule(whole))

    def _joined(self, own: Mapping[str, Any]) -> str:
        """Return the rule of a reference, of values, or of several schemas; "" if other keywords restrict it."""
        keys, kinds = own.keys(), own.get("type")
        if keys == {"$ref"}:
            return self._referred(str(own["$ref"]))
        if keys <= {"type", "enum", "const"} and (known := values_of([dict(own)])):
            return self._rule(" | ".join(lark_text(self._form.value_text(one)) for one in known))
        several = [own[key] for key in ("anyOf", "oneOf", "allOf") if keys == {key}]
        if isinstance(kinds, list):
            several = [[{**own, "type": kind} for kind in kinds]]
        if several and several[0] and (len(several[0]) == 1 or "allOf" not in own):
            return self._rule(" | ".join(map(self._value, several[0])))
        return self._of_kind(own)

    def _referred(self, reference: str) -> str:
        """Return the rule of a definition, which may refer to itself; "" if there is none."""
        place, _, key = reference.removeprefix("#/").partition("/")
        known = self._schema.get(place)
        if place in ("$defs", "definitions") and isinstance(known, dict) and key in known:
            if reference not in self._named:
                self._named[reference] = f"{self._name}n{len(self._named)}"
                name = self._named[reference]
                self.rules.append(f"{name}: {self._value(known[key])}")
            return self._named[reference]
        return ""

    def _of_kind(self, own: Mapping[str, Any]) -> str:
        """Return the rule of a string, an object or an array; "" for other types and further keywords."""
        keys, kind = own.keys(), own.get("type", "object" if "properties" in own else "")
        if kind == "string" and keys <= {"type", "minLength", "maxLength"}:
            return self._text(own)
        if kind == "object" and (members := self._of_object(own)):
            return self._rule(f'"{{" {members} "}}"')
        if kind == "array" and keys <= {"type", "items", "minItems", "maxItems"}:
            return self._array(self._value(own.get("items", True)), own.get("minItems"), own.get("maxItems"))
        return ""

    def _of_object(self, own: Mapping[str, Any]) -> str:
        """Write the members of an object; "" if its keywords are not enforced here."""
        more = own.get("additionalProperties", not own.get("properties"))
        has_all = own.keys() <= {"type", "properties", "required", "additionalProperties"}
        if not has_all or not set(own.get("required") or ()) <= _keys(own).keys():
            return ""
        if not own.get("properties"):
            return self._pairs(more) if more is not False else json_text("")
        heads = {key: f"{lark_text(key)} {self._ends[0]}" for key in _keys(own)}
        members = {
            f"{heads[key]} {self._value(own['properties'][key])}": need for key, need in _keys(own).items()
        }
        return "" if more else _members(members, self._ends[1])

    def _pairs(self, values: Any) -> str:
        pair = self._rule(rf"/[\w$@.\/-]+/ {self._ends[0]} {self._value(values)}")
        return f"({pair} ({self._ends[1]} {pair})*)?"

    def _array(self, item: str, least: int | None = None, most: int | None = None) -> str:
        """Return the rule of an array of `least` to `most` items."""
        more = f"({self._ends[1]} {item}){{{max((least or 0) - 1, 0)},{'' if most is None else most - 1}}}"
        items = item if most == 1 else f"{item} {more}"
        items = items if least else f"({items})?"
        return self._rule(" ".join([json_text("["), *([items] if most != 0 else []), json_text("]")]))

    def _text(self, own: Mapping[str, Any]) -> str:
        quote = self._form.quote
        name = f"{self._name}t{own.get('minLength', '')}x{own.get('maxLength', '')}"
        if (rule := _text_rule(name, [own], quote)) not in self.rules:
            self.rules.append(rule)
        return self._rule(f"{lark_text(quote)} {name}")

    def _any(self) -> str:
        """Return the rule of any value."""
        if "any" not in self._named:
            self._named["any"] = name = f"{self._name}any"
            parts = (self._text({}), self._rule(f'"{{" {self._pairs(True)} "}}"'), self._array(name))
            self.rules.append(f"{name}: {' | '.join(parts)} | {_json_rule(PLAIN)}")
        return self._named["any"]


def _restrictions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that restrict a value."""
    return {key: value for key, value in schema.items() if key not in NOTES}
