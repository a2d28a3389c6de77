"""Each model's own form of calls: known by its template, read however it is cut, and forced by a grammar."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.api.tool_calls import CallDelta, ParsedReply, ToolCallParser
from app.api.tool_syntax import (
    FUNCTION_TAGS,
    FUNCTIONARY,
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_ARGS,
    QWEN_CODER,
    CallSyntax,
    ToolTemplate,
    tool_template,
)
from app.api.tools import FunctionFields, calls_grammar, tool_use
from app.engine.sampling.grammar import Grammars
from app.engine.sampling.sampling import make_sampler
from app.settings import assets_dir
from app.values.logits import Grammar
from app.values.messages import Sampling

SYNTAXES = {
    "hermes": HERMES,
    "qwen coder": QWEN_CODER,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "mistral args": MISTRAL_ARGS,
    "functionary": FUNCTIONARY,
    "function tags": FUNCTION_TAGS,
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 9},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "days"],
}
SCHEMAS = {"weather": PARAMETERS}
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
    ("hermes", "<tool_call>nothing"): ("<tool_call>nothing", []),
    ("hermes", "<tool_call>{'no': json}</tool_call>!"): ("<tool_call>{'no': json}</tool_call>!", []),
    ("hermes", "<tool_call>\n"): ("<tool_call>\n", []),
    ("hermes", "cut <tool_ca"): ("cut <tool_ca", []),
    ("llama", f'{{"name": "weather", "parameters": {IN_ROME}}}'): ("", [ROME]),
    ("llama", f'<|python_tag|>{{"type": "function", "name": "weather", "parameters": {IN_ROME}}}'): ("", [ROME]),
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
    ("functionary", f"all\nI look.>>>weather\n{IN_ROME}"): ("I look.", [ROME]),
    ("functionary", "all\nIn Python >>> is a prompt."): ("In Python >>> is a prompt.", []),
    ("functionary", "al"): ("al", []),
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
}  # fmt: skip


def parsed(syntax: CallSyntax, pieces: Sequence[str]) -> ParsedReply:
    parser, written = ToolCallParser(syntax, SCHEMAS), ParsedReply()
    deltas = [delta for piece in pieces for delta in parser.push(piece)] + parser.flush()
    for delta in deltas:
        written.add(delta)
    assert len([delta for delta in deltas if isinstance(delta, CallDelta)]) == len(written.calls)
    return written


@pytest.mark.parametrize(("name", "text"), WRITTEN, ids=lambda value: str(value)[:24])
@given(data=st.data())
def test_pieces_make_no_difference(name: str, text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    written = parsed(SYNTAXES[name], [text[start:end] for start, end in itertools.pairwise(cuts)])
    expected, calls = WRITTEN[name, text]
    assert written.text == expected
    assert [(call.name, json.loads(call.arguments)) for call in written.calls] == calls


@pytest.mark.parametrize("name", SYNTAXES)
@given(text=st.text(alphabet='<tool_cal>/{}"[]\\n :,neTOLCS=>fui', max_size=60))
def test_nothing_breaks_a_parser(name: str, text: str) -> None:
    whole, cut = parsed(SYNTAXES[name], [text]), parsed(SYNTAXES[name], list(text))
    assert (whole.text, whole.calls == []) == (cut.text, cut.calls == [])


TEMPLATES: dict[str, tuple[str, CallSyntax | None]] = {
    "Qwen 2.5": (
        "{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools><tool_call>\\n"
        '{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call>{% endif %}',
        HERMES,
    ),
    "Qwen3-Coder": (
        "{% if tools %}<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>{% endif %}",
        QWEN_CODER,
    ),
    "Llama 3.1": (
        "{%- if not tools is none %}{{- 'Respond in the format {\"name\": function name, \"parameters\": "
        "dictionary of argument name and its value}.' }}{% endif %}<|python_tag|>",
        LLAMA,
    ),
    "Mistral v3": ('{% if tools %}[AVAILABLE_TOOLS]{% endif %}{{- "[TOOL_CALLS] [" }}', MISTRAL),
    "Mistral Small 3.2": ("{% if tools %}{% endif %}[TOOL_CALLS]{{ name }}[ARGS]", MISTRAL_ARGS),
    "Functionary 3.2": ("{% if tools %}>>>${recipient}\n${content}{% endif %}", FUNCTIONARY),
    "Functionary 3.1": ("{% if tools %}<function=example>{{ '{}' }}</function>{% endif %}", FUNCTION_TAGS),
    "GLM 4.5": ("{% if tools %}<tool_call>{function-name}<arg_key>{% endif %}", None),
    "Seed-OSS": ("{% if tools %}<seed:tool_call><function=x><parameter=y>{% endif %}", None),
    "no tools": ("{{ messages[0].content }}<tool_call>", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_form_is_known_by_the_template(name: str) -> None:
    template, syntax = TEMPLATES[name]
    assert tool_template(template) == (ToolTemplate(syntax, True) if syntax else ToolTemplate())


def test_where_the_template_tells_of_tools_the_system_prompt_does_not() -> None:
    tools = [FunctionFields(name="weather", parameters=PARAMETERS)]
    native = tool_use(tools, None, None, None, ToolTemplate(MISTRAL, True))
    assert native.prompt == "" and native.control == ("[TOOL_CALLS]",)
    (seen,) = json.loads(native.native)
    assert seen["function"] == {"name": "weather", "description": "", "parameters": PARAMETERS}
    explained = tool_use(tools, None, None, None)
    assert explained.native == "" and "weather" in explained.prompt


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    """With Mistral's control tokens."""
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(assets_dir() / "demo-model")
    loaded.add_tokens(["[TOOL_CALLS]", "[ARGS]"], special_tokens=True)
    return loaded


def forced(
    syntax: CallSyntax, parameters: dict[str, Any], tokenizer: PreTrainedTokenizerBase
) -> tuple[ParsedReply, list[int]]:
    """What noise writes where a call is forced: as it is read, and its tokens."""
    tools = [FunctionFields(name="weather", parameters=parameters)]
    grammar = Grammar("lark", calls_grammar(tools, 2 if syntax.can_repeat else 1, syntax))
    process = Grammars().compile(grammar, tokenizer, frozenset({tokenizer.eos_token_id}), 1)
    sampler = make_sampler(Sampling(temperature=1.0, seed=5), processes=[process])
    generator, tokens = torch.Generator().manual_seed(1), [5]
    while len(tokens) < 600 and tokens[-1] != tokenizer.eos_token_id:
        tokens.append(sampler(torch.randn(1, len(tokenizer), generator=generator) * 2).choose(0, tokens))
    assert tokens[-1] == tokenizer.eos_token_id
    text = str(tokenizer.decode(tokens[1:-1], clean_up_tokenization_spaces=False))
    parser, written = ToolCallParser(syntax, {"weather": parameters}), ParsedReply()
    for delta in (*parser.push(text), *parser.flush()):
        written.add(delta)
    assert written.calls and not written.text.strip()
    return written, tokens


PEOPLE = {
    "type": "object",
    "properties": {
        "who": {"$ref": "#/$defs/Person"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "null"}]},
        "note": {"type": "string", "minLength": 2, "maxLength": 9},
        "sort": {"const": "x", "type": "string"},
    },
    "required": ["who", "unit", "days", "note", "sort"],
    "$defs": {
        "Person": {
            "type": "object",
            "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["age"],
        }
    },
}


@pytest.mark.parametrize("name", SYNTAXES)
def test_forced_arguments_match_a_schema_with_definitions(
    name: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    """As pydantic writes one."""
    written, _ = forced(SYNTAXES[name], PEOPLE, tokenizer)
    for call in written.calls:
        jsonschema.validate(json.loads(call.arguments), PEOPLE)


@pytest.mark.parametrize("name", SYNTAXES)
def test_what_a_grammar_forces_is_read_as_the_call(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    syntax = SYNTAXES[name]
    written, tokens = forced(syntax, PARAMETERS, tokenizer)
    for call in written.calls:
        arguments = json.loads(call.arguments)
        assert call.name == "weather" and set(arguments) == {"city", "days"}
        assert 0 <= arguments["days"] <= 99
    if syntax.control:
        known = {tokenizer.convert_tokens_to_ids(token) for token in ("[TOOL_CALLS]",)}
        assert bool(known & set(tokens)) == (syntax.opening == "[TOOL_CALLS]"), "not its letters"
