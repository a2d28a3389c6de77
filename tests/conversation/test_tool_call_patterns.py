"""Each model's own form of calls: read off its template, read however it is cut, and forced by a grammar."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.tool_fields import tool_use
from app.conversation.reply_parsing import CallDelta, ParsedReply, ReplyParser, ToolCallParser
from app.conversation.tool_use import FunctionFields
from app.engine.text.sandbox import chat_format_here
from app.values.chat_format import HERMES, CallFormat, ChatFormat, ReplyFormat

TOOLS_SHOWN = "{% if tools %}{{ tools | tojson }}{% endif %}"
BEFORE = TOOLS_SHOWN + "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}"
EACH = "{% for c in m.tool_calls %}{% set f = c.function %}"
AFTER = "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
ARGUMENT = "{% for key, value in f.arguments.items() %}"
TEXT_OR_JSON = "{{ value if value is string else value | tojson }}"
CALLED = {
    "hermes": EACH
    + '{{ "\n" if not loop.first }}<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}\n'
    + "</tool_call>{% endfor %}",
    "qwen coder": EACH
    + '{{ "\n" if not loop.first }}<tool_call>\n<function={{ f.name }}>'
    + f"{ARGUMENT}{{{{ '\n' }}}}<parameter={{{{ key }}}}>\n{TEXT_OR_JSON}\n</parameter>{{% endfor %}}"
    + "{{ '\n' }}</function>\n</tool_call>{% endfor %}",
    "llama": "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
    + "{% set f = m.tool_calls[0].function %}"
    + '{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}',
    "mistral": "[TOOL_CALLS] ["
    + EACH
    + '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}, "id": "{{ c.id }}"}'
    + '{{ ", " if not loop.last }}{% endfor %}]',
    "mistral args": EACH + "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}{% endfor %}",
    "function tags": EACH + "<function={{ f.name }}>{{ f.arguments | tojson }}</function>{% endfor %}",
    "tight": EACH
    + "<tool_call>{{ f.name }}"
    + f"{ARGUMENT}<arg_key>{{{{ key }}}}</arg_key><arg_value>{TEXT_OR_JSON}</arg_value>{{% endfor %}}"
    + "</tool_call>{% endfor %}",
    "glm": EACH
    + "<tool_call>{{ f.name }}\n"
    + f"{ARGUMENT}<arg_key>{{{{ key }}}}</arg_key>\n<arg_value>{TEXT_OR_JSON}</arg_value>\n{{% endfor %}}"
    + "</tool_call>{% endfor %}",
    "minimax": "<x:calls>\n"
    + EACH
    + '<invoke name="{{ f.name }}">'
    + f'{ARGUMENT}{{{{ "\n" }}}}<parameter name="{{{{ key }}}}">{TEXT_OR_JSON}</parameter>{{% endfor %}}'
    + "{{ '\n' }}</invoke>\n{% endfor %}</x:calls>",
    "kimi": "<|calls_begin|>"
    + EACH
    + "<|call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|call_arguments|>"
    + "{{ f.arguments | tojson }}<|call_end|>"
    + "{% endfor %}<|calls_end|>",
    "gemma": EACH
    + "<|tool_call>call:{{ f.name }}{{ '{' }}"
    + ARGUMENT
    + "{{ key }}:{% if value is string %}<|\"|>{{ value }}<|\"|>{% else %}{{ value | tojson }}{% endif %}"
    + '{{ "," if not loop.last }}{% endfor %}{{ "}" }}<tool_call|>{% endfor %}',
    "pythonic": "<|call_start|>["
    + EACH
    + "{{ f.name }}("
    + ARGUMENT
    + "{{ key }}={% if value is string %}'{{ value }}'{% else %}{{ value | tojson }}{% endif %}"
    + '{{ ", " if not loop.last }}{% endfor %}){{ ", " if not loop.last }}{% endfor %}]<|call_end|>',
    "command": "<|START_ACTION|>[\n"
    + EACH
    + '    {"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ f.name }}", '
    + '"parameters": {{ f.arguments | tojson }}}'
    + '{{ ",\n" if not loop.last }}{% endfor %}{{ "\n" }}]<|END_ACTION|>',
    "apertus": "<|prefix|>["
    + EACH
    + '{"{{ f.name }}": {{ f.arguments | tojson }}}{{ ", " if not loop.last }}{% endfor %}]<|suffix|>',
    "own tags": "~<calls>"
    + EACH
    + '~<invoke name="{{ f.name }}">'
    + ARGUMENT
    + f"~<{{{{ key }}}}>{TEXT_OR_JSON}~</{{{{ key }}}}>{{% endfor %}}~</invoke>{{% endfor %}}~</calls>",
}  # fmt: skip
RECIPIENT = (
    TOOLS_SHOWN
    + "{% for m in messages %}{% if m.role != 'assistant' %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|eot|>"
    + "{% else %}{% if m.content %}<|start|>assistant to=user<|message|>{{ m.content }}<|eot|>{% endif %}"
    + EACH
    + '<|start|>assistant to={{ f.name }}<|message|><x:calls><invoke name="{{ f.name }}">{{ f.arguments | tojson }}'
    + "</invoke></x:calls>{{ '<|eom|>' if not loop.last else '<|eot|>' }}{% endfor %}{% endif %}{% endfor %}"
    + "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
FUNCTIONARY = (
    TOOLS_SHOWN
    + "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
    + "{% if m.content %}>>>all\n{{ m.content }}{% endif %}"
    + "{% for c in m.tool_calls %}{{ '>>>' + c.function.name + '\n' + c.function.arguments }}{% endfor %}"
    + "{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|>>>>{% endif %}"
)


def form_of(template: str) -> CallFormat:
    return chat_format_here(template, {}, []).reply.calls


FORMS = {name: form_of(BEFORE + called + AFTER) for name, called in CALLED.items()}
FORMS["functionary"] = form_of(FUNCTIONARY)
FORMS["recipient"] = form_of(RECIPIENT)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 9},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "days"],
}
TEXT, PLACE = {"$ref": "#/$defs/Text"}, {"$ref": "#/$defs/Place"}
DEFINED = {
    "Text": {"type": "string"},
    "Place": {"type": "object", "properties": {"id": {"type": "integer"}, "name": TEXT}},
}
PLACES = {"anyOf": [{"type": "array", "items": PLACE}, {"type": "object", "properties": {"one": PLACE}}]}
SCHEMAS = {
    "weather": PARAMETERS,
    "go": {"type": "object", "properties": {"to": PLACES, "at": TEXT}, "$defs": DEFINED},
}
ROME = ("weather", {"city": 'Ro{m"e}', "days": 2})
OSLO = ("weather", {"city": "Oslo", "days": 3})
SUM: tuple[str, dict[str, Any]] = ("sum", {"a": [1, 2]})
IN_ROME, IN_OSLO = (json.dumps(arguments) for _, arguments in (ROME, OSLO))
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Ro{m\\"e}", "days": 2}}\n</tool_call>'
WRITTEN: dict[tuple[str, str], tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    ("hermes", "Only text with a < in it."): ("Only text with a < in it.", []),
    ("hermes", CALL): ("", [ROME]),
    ("hermes", f"I look.{CALL}"): ("I look.", [ROME]),
    ("hermes", f"{CALL}\n{CALL}"): ("", [ROME] * 2),
    ("hermes", '<tool_call>\n{"arguments": {"a": [1, 2]}, "name": "sum"}\n</tool_call>'): ("", [SUM]),
    ("hermes", CALL.removesuffix("\n</tool_call>")): ("", [ROME]),
    ("hermes", CALL.replace("\n</tool_call>", "\nSo.")): ("So.", [ROME]),
    (
        "tight",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
    ): ("", [OSLO]),
    ("hermes", "<tool_call>nothing"): ("<tool_call>nothing", []),
    ("hermes", "<tool_call>{'no': json}</tool_call>!"): ("<tool_call>{'no': json}</tool_call>!", []),
    ("hermes", "<tool_call>\n"): ("<tool_call>\n", []),
    ("hermes", "cut <tool_ca"): ("cut <tool_ca", []),
    ("llama", f'{{"name": "weather", "parameters": {IN_ROME}}}'): ("", [ROME]),
    ("llama", f'<|python_tag|>{{"type": "function", "name": "weather", "parameters": {IN_ROME}}}'): ("", [ROME]),
    (
        "llama",
        f'[{{"name": "weather", "parameters": {IN_ROME}}}, {{"name": "weather", "parameters": {IN_OSLO}}}]',
    ): ("", [ROME, OSLO]),
    (
        "llama",
        f'{{"name": "weather", "parameters": {IN_ROME}}}; {{"name": "weather", "parameters": {IN_OSLO}}}\n\nSo.',
    ): ("So.", [ROME, OSLO]),
    ("llama", f'{{"type": "function", "function": "weather", "parameters": {IN_ROME}}}'): ("", [ROME]),
    ("llama", '{"name": "weather", "parameters": null}'): ("", [("weather", {})]),
    ("llama", '{"name": "Rome", "age": 2800}'): ('{"name": "Rome", "age": 2800}', []),
    ("llama", '{"name": "Rome", "parameters": {}}!'): ('{"name": "Rome", "parameters": {}}!', []),
    ("llama", '{"answer": 42}'): ('{"answer": 42}', []),
    ("llama", "It is {sunny}."): ("It is {sunny}.", []),
    ("mistral", f'[TOOL_CALLS] [{{"name": "weather", "arguments": {IN_ROME}}}]'): ("", [ROME]),
    (
        "mistral",
        f'Let me see.[TOOL_CALLS][{{"name": "weather", "arguments": {IN_ROME}, "id": "abcdefghi"}}, '
        f'{{"name": "weather", "arguments": {IN_OSLO}}}]',
    ): ("Let me see.", [ROME, OSLO]),
    ("mistral", "[TOOL_"): ("[TOOL_", []),
    ("mistral args", f"[TOOL_CALLS]weather[ARGS]{IN_ROME}[TOOL_CALLS]weather[CALL_ID]abc123def[ARGS]{IN_OSLO}"): (
        "",
        [ROME, OSLO],
    ),
    ("functionary", f"weather\n{IN_ROME}>>>weather\n{IN_OSLO}"): ("", [ROME, OSLO]),
    ("functionary", f"I look.>>>weather\n{IN_ROME}"): ("I look.", [ROME]),
    ("functionary", "In Python >>> is a prompt."): ("In Python >>> is a prompt.", []),
    ("functionary", "Yes"): ("Yes", []),
    ("own tags", '~<calls>~<invoke name="go">~<to>~<item>~<id>1~</id>~<name>A~</name>~</item>~<item>~<id>2~</id>'
     "~</item>~</to>~</invoke>~</calls>"): ("", [("go", {"to": [{"id": 1, "name": "A"}, {"id": 2}]})]),
    ("own tags", '~<calls>~<invoke name="go">~<to>~<one>~<id>1~</id>~</one>~</to>~<at>~<x>1~</x>~</at>~</invoke>'
     "~</calls>"): ("", [("go", {"to": {"one": {"id": 1}}, "at": "~<x>1~</x>"})]),
    ("own tags", '~<calls>~<invoke name="go">~<at><![CDATA[a~</at>]]>~</at>~</invoke>~</calls>'): (
        "", [("go", {"at": "a~</at>"})]
    ),
    ("recipient", f'So. to=weather<|message|><x:calls><invoke name="weather">{IN_ROME}</invoke></x:calls><|eom|>'
     f'<|start|>assistant to=weather<|message|><x:calls><invoke name="weather">{IN_OSLO}</invoke></x:calls>'): (
        "So. ", [ROME, OSLO]
    ),
    ("recipient", 'It is <x:calls><invoke name="x">{}</invoke></x:calls>, or to=5.'): (
        'It is <x:calls><invoke name="x">{}</invoke></x:calls>, or to=5.', []
    ),
    ("function tags", f"<function=weather>{IN_ROME}</function>\n<function=weather>{IN_OSLO}</function>"): (
        "",
        [ROME, OSLO],
    ),
    ("function tags", "if a <function"): ("if a <function", []),
    (
        "qwen coder",
        "So.\n<tool_call>\n<function=weather>\n<parameter=city>\nRo{m\"e}\n</parameter>\n"
        "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    ): ("So.\n", [ROME]),
    ("qwen coder", "<tool_call>\n<function=now>\n</function>\n</tool_call>"): ("", [("now", {})]),
    ("qwen coder", "<function=now>\n</function>\n</tool_call>"): ("", [("now", {})]),
    ("hermes", '<tool_call>\n{"id": "1", "name": "sum", "arguments": {"a": [1, 2]}}\n</tool_call>'): ("", [SUM]),
    (
        "hermes",
        '<tool_call>\n{"arguments": {"text": "a </tool_call> b"}, "name": "write"}\n</tool_call>',
    ): ("", [("write", {"text": "a </tool_call> b"})]),
    (
        "glm",
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
    ): ("", [OSLO]),
    (
        "minimax",
        '<x:calls>\n<invoke name="weather">\n<parameter name="city">Oslo</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</x:calls>',
    ): ("", [OSLO, ("now", {})]),
    (
        "kimi",
        f"So.<|calls_begin|><|call_begin|>functions.weather:0<|call_arguments|>{IN_ROME}<|call_end|>"
        f"<|call_begin|>functions.weather:1<|call_arguments|>{IN_OSLO}<|call_end|><|calls_end|>",
    ): ("So.", [ROME, OSLO]),
    ("gemma", '<|tool_call>call:weather{city:<|"|>Ro{m"e}<|"|>,days:2}<tool_call|>'): ("", [ROME]),
    ("gemma", '<|tool_call>call:f{a:"x,y",b:{"c":"}"}}<tool_call|>'): ("", [("f", {"a": "x,y", "b": {"c": "}"}})]),
    ("gemma", '<|tool_call>call:f{a:{b:[1,<|"|>x<|"|>],c:true}}<tool_call|>'): (
        "",
        [("f", {"a": {"b": [1, "x"], "c": True}})],
    ),
    ("pythonic", "<|call_start|>[weather(city='Oslo', days=3), now()]<|call_end|>"): ("", [OSLO, ("now", {})]),
    ("pythonic", '<|call_start|>[f(a={"x": True, "y": None}, b="it\'s (1, 2)")]<|call_end|>'): (
        "",
        [("f", {"a": {"x": True, "y": None}, "b": "it's (1, 2)"})],
    ),
    (
        "command",
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", '
        f'"parameters": {IN_ROME}}}\n]<|END_ACTION|>',
    ): ("", [ROME]),
    ("apertus", f'<|prefix|>[{{"weather": {IN_ROME}}}, {{"weather": {IN_OSLO}}}]<|suffix|>'): ("", [ROME, OSLO]),
}  # fmt: skip


def parsed(form: CallFormat, pieces: Sequence[str]) -> ParsedReply:
    parser, written = ToolCallParser(form, SCHEMAS), ParsedReply()
    deltas = [delta for piece in pieces for delta in parser.push(piece)] + parser.flush()
    for delta in deltas:
        written.add(delta)
    assert len([delta for delta in deltas if isinstance(delta, CallDelta)]) == len(written.calls)
    return written


@pytest.mark.parametrize(("name", "text"), WRITTEN, ids=lambda value: str(value)[:24])
@given(data=st.data())
def test_pieces_make_no_difference(name: str, text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    written = parsed(FORMS[name], [text[start:end] for start, end in itertools.pairwise(cuts)])
    expected, calls = WRITTEN[name, text]
    assert written.text == expected
    assert [(call.name, json.loads(call.arguments)) for call in written.calls] == calls


@pytest.mark.parametrize("name", FORMS)
@given(text=st.text(alphabet='<tool_cal>/{}"[]\\n :,neTOLCS=>fui', max_size=60))
def test_nothing_breaks_a_parser(name: str, text: str) -> None:
    whole, cut = parsed(FORMS[name], [text]), parsed(FORMS[name], list(text))
    assert (whole.text, whole.calls == []) == (cut.text, cut.calls == [])


def test_a_form_is_read_off_the_template() -> None:
    assert FORMS["hermes"] == replace(HERMES, shows_tools=True)
    assert {name: form.kind for name, form in FORMS.items()} == {
        "hermes": "object", "qwen coder": "tags", "llama": "object", "mistral": "object", "mistral args": "json",
        "function tags": "json", "tight": "tags", "glm": "tags", "minimax": "tags", "kimi": "json",
        "gemma": "pairs",
        "pythonic": "pairs", "command": "object", "apertus": "object", "functionary": "json",
        "own tags": "tags", "recipient": "json",
    }  # fmt: skip
    assert [name for name, form in FORMS.items() if not form.can_repeat] == ["llama"]
    assert [name for name, form in FORMS.items() if form.takes_text] == ["functionary"]
    assert form_of("{{ messages[0].content }}<tool_call>").kind == ""
    assert form_of("{{ messages[0].content }}{{ tools | tojson }}<tool_call>").kind == "object", "it is named"
    untold = form_of(UNTOLD + CALLED["glm"] + AFTER)
    assert untold.kind == "tags" and not untold.shows_tools


@pytest.mark.parametrize("name", FORMS)
def test_a_reply_that_is_cut_anywhere_in_its_calls_has_no_text_and_no_call_that_only_looks_whole(
    name: str,
) -> None:
    form = FORMS[name]
    two = [("weather", '{"city": "Rome", "days": 2}'), ("weather", '{"city": "Oslo"}')][: 1 + form.can_repeat]
    text = form.written(two).replace("\0", "1")
    for end in range(len(form.begin + form.before_name) + 1, len(text)):
        parser, written = ToolCallParser(form, SCHEMAS), ParsedReply()
        for delta in (*parser.push(text[:end]), *parser.flush(is_cut=True)):
            written.add(delta)
        assert form.opening == "" or not written.text.strip(), text[:end]
        for call, (_, arguments) in zip(written.calls, two, strict=False):
            assert call.is_cut or call.arguments_object == json.loads(arguments), text[:end]


def test_the_indentation_of_a_template_is_no_part_of_calls() -> None:
    """vLLM's template for DeepSeek V3 writes it before tags and line ends."""
    call = "<|call|>{{ f.name }}<|sep|>{{ f.arguments | tojson }}<|done|>{% endfor %}"
    called = f"    <|calls|>{EACH}{{{{ '    \n' if not loop.first }}}}{call}    <|all|>"
    calls = form_of(BEFORE + called + AFTER)
    assert calls == form_of(BEFORE + called.replace("    ", "") + AFTER)
    two = '<|calls|><|call|>f<|sep|>{"a": 1}<|done|>\n<|call|>g<|sep|>{}<|done|><|all|>'
    assert calls.written([("f", '{"a": 1}'), ("g", "{}")]) == two


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.can_repeat and form.opening])
def test_a_stop_string_after_a_call_shows_no_part_of_a_marker(name: str) -> None:
    two = [("weather", '{"city": "Rome", "days": 2}'), ("weather", '{"city": "Oslo"}')]
    text, first = (FORMS[name].written(two[:count]).replace("\0", "1") for count in (2, 1))
    for end in range(len(first) - len(FORMS[name].end), len(text)):
        parser, written = ToolCallParser(FORMS[name], SCHEMAS), ParsedReply()
        for delta in (*parser.push(text[:end]), *parser.flush()):
            written.add(delta)
        assert len(written.calls) in (1, 2) and not written.text, text[:end]


UNTOLD = BEFORE.removeprefix(TOOLS_SHOWN)


def test_a_template_may_show_calls_without_describing_tools() -> None:
    refuses = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + UNTOLD
    assert form_of(refuses + CALLED["kimi"] + AFTER) == form_of(UNTOLD + CALLED["kimi"] + AFTER)
    ends = "{% endif %}<|end|>{{ '<|go|>' if m.tool_calls }}{% endfor %}"
    assert form_of(UNTOLD + CALLED["mistral"] + ends).end == "]"
    hides_results = UNTOLD.replace("{{ m.content }}", "{{ m.content if m.role != 'tool' }}")
    assert form_of(hides_results + CALLED["kimi"] + AFTER).kind == ""
    needs_none = UNTOLD.replace("if m.tool_calls", "if m.content is none")
    form = form_of(needs_none + CALLED["mistral"] + AFTER)
    assert form.kind == "object" and form.omits_calls, "no message of a chat has the content None"


@pytest.mark.parametrize("name", ["glm", "gemma", "kimi", "mistral args", "pythonic", "minimax"])
def test_the_models_own_form_is_explained_if_its_template_does_not(name: str) -> None:
    form = replace(FORMS[name], shows_tools=False)
    given = tool_use(
        [FunctionFields(name="weather", parameters=PARAMETERS)], None, None, None,
        ChatFormat(ReplyFormat(calls=form)),
    )  # fmt: skip
    assert given.calls == form and not given.native
    _, _, example = given.prompt.rpartition(":\n")
    written = parsed(form, [f"Yes.{example}"])
    assert [(call.name, json.loads(call.arguments)) for call in written.calls] == [
        ("function_name", {"argument_name": "value"})
    ]
    assert (
        parsed(form, [form.written([("weather", json.dumps(ROME[1]))])]).calls[0].arguments_object == ROME[1]
    )


def read(text: str, form: CallFormat) -> tuple[str, str, list[tuple[str, Any]]]:
    parser, written = ReplyParser(ToolCallParser(form, SCHEMAS)), ParsedReply()
    for delta in [*(delta for part in text for delta in parser.push(part)), *parser.flush()]:
        written.add(delta)
    return written.thought, written.text, [(call.name, json.loads(call.arguments)) for call in written.calls]


def test_a_call_that_a_thought_mentions_is_none() -> None:
    assert read(f"<think>Maybe {CALL}?</think>No.", HERMES) == (f"Maybe {CALL}?", "No.", [])
    assert read(f"<think>So.</think>\n{CALL}", HERMES) == ("So.", "", [ROME])
    assert read(f"<think>So.\n{CALL}", HERMES) == ("So.\n", "", [ROME]), "the model did not close its thought"
    assert read("<think>So <tool_call>", HERMES) == ("So <tool_call>", "", [])


def test_where_the_template_tells_of_tools_the_system_prompt_does_not() -> None:
    tools = [FunctionFields(name="weather", parameters=PARAMETERS)]
    native = tool_use(tools, None, None, None, ChatFormat(ReplyFormat(calls=FORMS["mistral"])))
    assert native.prompt == "" and native.control[0] == "[TOOL_CALLS] ["
    (seen,) = json.loads(native.native)
    assert seen["function"] == {"name": "weather", "description": "", "parameters": PARAMETERS}
    assert list(seen["function"]) == ["name", "description", "parameters"], "as models have learned them"
    explained = tool_use(tools, None, None, None)
    assert explained.native == "" and "weather" in explained.prompt
