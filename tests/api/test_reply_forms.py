"""Replies of well-known families, in their own markers, through the real engine: the thought, the answer and calls
are told apart, with every decoder and however the text is cut."""

import json
from contextlib import closing
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import pytest

from app.api.tool_fields import tool_use
from app.conversation.reply import ReplySoFar
from app.conversation.reply_parsing import ParsedReply
from app.conversation.thought_parsing import split_thought
from app.conversation.tool_use import FunctionFields, ToolUse
from app.engine.session.session import Session
from app.engine.text.sandbox import chat_format_here
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import Decoding, Message, ModelChoice, Options, Piece, Request
from tests.engine.families import FAMILIES, Family
from tests.engine.scripted import write_scripted
from tests.tiers import some

WEATHER = FunctionFields(
    name="weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)
HI = (Message("user", "Hi"),)
SCRIPTED = ModelChoice("scripted", dtype="float32")
DECODERS: Any = ("plain", "lookahead", "prompt-lookup")


a_few_families = pytest.mark.parametrize(
    "name", some({name: name for name in FAMILIES}, *list(FAMILIES)[::2])
)


def used(family: Family, choice: str | None = None) -> ToolUse:
    return tool_use([WEATHER], choice, None, None, chat_format_here(family.template, {}, []))


def opened(folder: Path, family: Family, text: str, tools: ToolUse | None = None) -> Session:
    """A session of a scripted model in this family's form."""
    values = {"tools": json.loads(tools.native)} if tools else {}
    context = 768 if tools else 384
    made = write_scripted(folder, text, family.template, controls=family.controls, context=context, **values)
    return Session(locate=lambda _name, _progress: made)


def written(
    session: Session, tools: ToolUse | None = None, grammar: Grammar | None = None, **options: Any
) -> ReplySoFar:
    """The model's whole reply."""
    request = Request(
        SCRIPTED,
        HI,
        Options(max_new_tokens=200, **options),
        tools=tools.native if tools else "",
        control=tools.control if tools else (),
        logits=LogitsSettings(grammar=tools.grammar if tools else grammar),
    )
    reply = ReplySoFar()
    reply.take(session.events(request))
    return reply


def parsed(tools: ToolUse, pieces: list[str]) -> ParsedReply:
    parser, found = tools.parser(), ParsedReply()
    for delta in [*(delta for piece in pieces for delta in parser.push(piece)), *parser.flush()]:
        found.add(delta)
    found.thought_end = parser.thought_end
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_a_thought_is_told_from_the_answer(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    with closing(opened(tmp_path, family, family.thinks)) as session:
        texts = {written(session, decoding=Decoding(decoder)).text for decoder in DECODERS}
    (text,) = texts
    split = split_thought(text)
    assert (split.thought, split.answer) == ("Hm.", "Yes.")
    assert "<|" not in text and "analysis" not in text and "assistant" not in text


@pytest.mark.parametrize("name", FAMILIES)
def test_a_call_is_read_in_the_models_own_form(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    tools = used(family)
    assert tools.calls.kind and tools.calls.shows_tools
    with closing(opened(tmp_path, family, family.calls, tools)) as session:
        reply = written(session, tools)
    for pieces in ([reply.text], list(reply.text)):
        found = parsed(tools, pieces)
        calls = [(call.name, json.loads(call.arguments)) for call in found.calls]
        assert (found.thought, found.text, calls) == ("Hm.", "", [("weather", {"city": "Rome"})])
        assert 0 < sum(mark.end <= found.thought_end for mark in reply.marks) < len(reply.marks)


@a_few_families
def test_a_model_may_think_before_a_call_that_is_forced(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    tools = used(family, "required")
    with closing(opened(tmp_path, family, family.calls, tools)) as session:
        found = parsed(tools, [written(session, tools).text])
    calls = [(call.name, json.loads(call.arguments)) for call in found.calls]
    assert (found.thought, found.text, calls) == ("Hm.", "", [("weather", {"city": "Rome"})])


@pytest.mark.parametrize(("name", "kind"), [*zip(FAMILIES, cycle(("json_schema", "regex", "lark")))])
def test_a_model_may_think_before_an_answer_of_a_given_form(name: str, kind: Any, tmp_path: Path) -> None:
    family = FAMILIES[name]
    script = family.thinks.replace("Yes.", "true")
    source = {
        "regex": "(false|true)",
        "lark": 'start: "false" | "true"',
        "json_schema": '{"type": "boolean"}',
    }
    grammar = Grammar(kind, source[kind])
    with closing(opened(tmp_path, family, script)) as session:
        split = split_thought(written(session, grammar=grammar).text)
    assert (split.thought, split.answer) == ("Hm.", "true")


@a_few_families
def test_a_begun_reply_goes_on_as_if_it_had_not_stopped(name: str, tmp_path: Path) -> None:
    family = FAMILIES[name]
    session = opened(tmp_path, family, family.thinks)

    def pieces(prompt: tuple[Message, ...], most: int = 200) -> list[str]:
        options = Options(max_new_tokens=most, decoding=Decoding("plain"))
        events = session.events(Request(SCRIPTED, prompt, options))
        return [event.text for event in events if isinstance(event, Piece)]

    written = list(accumulate(pieces(HI)))
    stops = [number for number, text in enumerate(written, 1) if text[-1:] in list("HmYe")]
    assert len(stops) >= 4
    for most in stops:
        begun = "".join(pieces(HI, most))
        assert begun + "".join(pieces((*HI, Message("assistant", begun)))) == written[-1]
    session.close()
