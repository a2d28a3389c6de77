"""What chat templates accept, what ends their turns, and how thinking is switched, all found by rendering them."""

import json

import pytest

from app.engine.text.chat_format_detection import find_chat_format
from app.engine.text.prompt import NO_ANSWER, fitted
from app.engine.text.sandbox import SandboxRefusal, chat_format_here, fill_here
from app.engine.text.sandbox_main import fill
from app.values.chat_format import ChatFormat
from app.values.messages import Message, PromptRole, ToolCall

TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ASSISTANT = "<|im_start|>assistant\n"
REASONING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
)
GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}<start_of_turn>{{ m.role }}\n{{ m.content | trim }}"
    "<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
MISTRAL = (
    "{% set ns = namespace(asks=true) %}{% for m in messages %}"
    "{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{% if (m.role == 'user') != ns.asks %}{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% set ns.asks = not ns.asks %}{% endif %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
)
HARMONY = (
    "Reasoning: {{ reasoning_effort if reasoning_effort is defined else 'medium' }}"
    "{% for m in messages %}<|start|>{{ m.role }}"
    "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>assistant{% endif %}"
    "{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "<|start|>assistant"
)
CONTROLS = ("<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<|start|>", "<|end|>", "</s>")


def found(template: str) -> ChatFormat:
    return find_chat_format(
        lambda messages, values: fill(template, [dict(one) for one in messages], dict(values)), CONTROLS
    )


def modes(template: str) -> dict[str, object]:
    return {mode.level: json.loads(mode.values) for mode in found(template).modes}


@pytest.mark.parametrize(
    ("switch", "levels"),
    [
        ("", {}),
        (
            "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>{% endif %}",
            {"on": {}, "off": {"enable_thinking": False}},
        ),
        ("{% if thinking %}<think>{% else %}</think>{% endif %}", {"off": {}, "on": {"thinking": True}}),
        (
            "{% if thinking %}<think>{{ 'hard' if reasoning_effort == 'max' }}{% endif %}",
            {"off": {}, "on": {"thinking": True}, "max": {"thinking": True, "reasoning_effort": "max"}},
        ),
        (
            "{% if thinking_budget == 0 %}skip{% elif thinking_budget %}{{ thinking_budget }}{% endif %}",
            {"default": {}, "on": {"thinking_budget": -1}, "off": {"thinking_budget": 0}},
        ),
        (
            "{% if reasoning_effort is defined and reasoning_effort not in ('low', 'high') %}"
            "{{ raise_exception('low or high') }}{% endif %}{{ reasoning_effort or 'high' }}",
            {"high": {}, "low": {"reasoning_effort": "low"}},
        ),
    ],
)
def test_the_levels_of_thinking_are_those_that_change_the_prompt(
    switch: str, levels: dict[str, object]
) -> None:
    assert modes(TURNS + ASSISTANT + switch) == levels


def test_a_template_that_writes_any_effort_into_the_prompt_has_the_three_that_models_learn() -> None:
    known = found(HARMONY)
    assert [mode.level for mode in known.modes] == ["medium", "low", "high"]
    assert known.reply.thought_opening == "<|channel|>analysis<|message|>"
    assert known.reply.thought_end == "<|end|><|start|>assistant<|channel|>final<|message|>"


def test_words_in_the_system_prompt_switch_where_they_change_the_end_of_the_prompt() -> None:
    switch = "{% if '/no_think' in messages[0].content %}<think></think>{% else %}<think>\n{% endif %}"
    first, second = found(TURNS + ASSISTANT + switch).modes
    assert (first.level, first.system, first.opens_thought) == ("on", "", True)
    assert (second.level, second.system, second.opens_thought) == ("off", "/no_think", False)


def test_words_of_the_templates_own_system_prompt_switch_too() -> None:
    default = (
        "{% if messages[0].role != 'system' %}<|im_start|>system\ndetailed thinking on<|im_end|>\n{% endif %}"
    )
    removes = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n"
    )
    known = found(default + removes + "{% endfor %}" + ASSISTANT)
    spoken = [(mode.level, mode.system) for mode in known.modes]
    assert spoken == [("on", "detailed thinking on"), ("off", "detailed thinking off")]
    assert known.reply.thought_opening == "<think>", "the template removes thoughts from earlier answers"
    assert not found(removes + "{% endfor %}" + ASSISTANT).modes


def test_a_template_that_always_opens_a_thought_has_one_mode() -> None:
    (mode,) = found(TURNS + ASSISTANT + "<think>\n").modes
    assert (mode.level, mode.values, mode.opens_thought) == ("on", "{}", True)


def test_the_text_between_a_thought_and_its_answer_is_the_templates() -> None:
    assert found(REASONING + ASSISTANT).reply.thought_end == "\n</think>\n\n"
    assert found(TURNS + ASSISTANT).reply.thought_end == ""


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        (TURNS + ASSISTANT, "<|im_end|>"),
        ("<|im_start|>system\nBe kind.<|im_end|>\n" + TURNS + ASSISTANT, "<|im_end|>"),
        (GEMMA, "<end_of_turn>"),
        (HARMONY, ""),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:", ""),
        (
            "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}<|assistant|>".replace(
                "<|{{ m.role }}|>", "{{ '<|im_start|>' if m.role == 'user' else '<|start|>' }}"
            ),
            "<|im_start|>",
        ),
    ],
)
def test_a_turn_ends_with_the_control_token_after_an_answer_unless_a_thought_ends_with_it(
    template: str, ends: str
) -> None:
    assert "".join(found(template).turn_ends[:1]) == ends


def test_a_template_of_a_vision_model_gets_contents_as_lists_of_parts() -> None:
    template = (
        "{% for m in messages %}{{ m.role }}: {% for p in m.content %}{{ p.text }}{% endfor %}\n{% endfor %}"
    )
    known = found(template)
    assert not known.takes_text and known.takes_system
    assert "user: Hi" in fill_here(template, [Message("user", "Hi")], {}, known)


CALLED = (ToolCall("1", "f", '{"a": "b", "n": 1}'), ToolCall("2", "g", ""))
PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% elif p.type == 'thinking' %}"
    "[THINK]{{ p.thinking }}[/THINK]{% else %}{{ fail() }}{% endif %}{% endfor %}{% endif %}"
    "{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{% endfor %}"
)


@pytest.mark.parametrize("content", ["", "So."])
def test_a_thought_is_a_part_of_the_content_if_the_template_takes_it_nowhere_else(content: str) -> None:
    known = found(PARTS)
    assert known.takes_thought_part and known.takes_text
    thought = Message("assistant", content, CALLED[:1], thought="Hm.")
    asked = (Message("user", "Go"), thought, Message("tool", "one", call_id="1"))
    text = fill_here(PARTS, fitted(asked, known), {}, known)
    assert text == f"<user>Go<assistant>[THINK]Hm.[/THINK]{content}f<tool>one"


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        (
            HARMONY,
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>So.<|end|>",
        ),
        (PARTS, "<assistant>[THINK]Hm.[/THINK]So."),
        (REASONING, "assistant\n<think>\nHm.\n</think>\n\nSo."),
        (TURNS, "assistant\n<think>\nHm.\n</think>\n\nSo."),
    ],
    ids=["harmony", "parts", "reasoning", "text"],
)
def test_an_earlier_thought_is_sent_with_the_models_own_markers(template: str, shown: str) -> None:
    known = found(template)
    asked = (
        Message("user", "Go"),
        Message("assistant", "<think>\nHm.\n</think>\n\nSo."),
        Message("user", "On"),
    )
    assert shown in fill_here(template, fitted(asked, known), {}, known)


@pytest.mark.parametrize(
    "template",
    [
        TURNS,
        "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
        PARTS + "{{ messages[-1].thinking }}",
    ],
    ids=["text", "JSON", "named"],
)
def test_a_thought_is_no_part_if_a_template_shows_all_parts_or_takes_the_thought_by_name(
    template: str,
) -> None:
    assert not found(template).takes_thought_part


def test_a_call_without_text_gets_no_empty_answer() -> None:
    template = (
        "{% for m in messages %}{% for c in m.tool_calls %}<call>{{ c.function.name }}</s>{% endfor %}"
        "{% if m.content is not none %}<{{ m.role }}>{{ m.content }}</s>{% endif %}{% endfor %}"
    )
    known = found(template)
    asked = (Message("user", "Go"), Message("assistant", "", CALLED[:1]), Message("tool", "one", call_id="1"))
    text = fill_here(template, fitted(asked, known), {}, known)
    assert text == "<user>Go</s><call>f</s><tool>one</s>"
    assert found(TURNS).takes_empty_call


@pytest.mark.parametrize(
    "template",
    ["{% for t in tools %}{{ t }}{% endfor %}", "{{ functions + datetime }}", "{{ bos_token + eos_token }}"],
    ids=["tools", "more", "special tokens"],
)
def test_a_template_is_filled_without_the_variables_that_it_needs(template: str) -> None:
    assert "Hello" in fill_here(template + TURNS, [Message("user", "Hello")], {})


def test_a_template_may_append_to_lists() -> None:
    template = (
        "{% set said = [] %}{% for m in messages %}{% set _ = said.append(m.content) %}{% endfor %}{{ said }}"
    )
    assert fill_here(template, [Message("user", "Hi"), Message("user", "you")], {}) == "['Hi', 'you']"


def test_a_template_that_changes_its_messages_changes_no_other_probe() -> None:
    changes = "{% for m in messages %}{% set _ = m.update(role=m.role + '+') %}{% endfor %}"
    assert "user++" not in str(chat_format_here(changes + TURNS + ASSISTANT, {}))
    assert chat_format_here(changes + TURNS + ASSISTANT, {}) == chat_format_here(
        changes + TURNS + ASSISTANT, {}
    )


S, U, V, A = Message("system", "S1"), Message("user", "U1"), Message("user", "U2"), Message("assistant", "A1")
CALL, RESULT = Message("assistant", "", (ToolCall("1", "f", "{}"),)), Message("tool", "R1", call_id="1")
ORDERS = {
    "su": (S, U), "uu": (U, V), "s": (S,), "au": (A, U), "sau": (S, A, U), "suauu": (S, U, A, U, V),
    "usu": (U, S, V), "uaau": (U, A, A, U), "ssu": (S, S, U), "uas u": (U, A, S, U),
}  # fmt: skip


@pytest.mark.parametrize(
    "template", [TURNS, GEMMA, MISTRAL, HARMONY], ids=["any", "gemma", "mistral", "harmony"]
)
@pytest.mark.parametrize("order", list(ORDERS))
def test_messages_in_any_order_are_taken_whole(template: str, order: str) -> None:
    text = fill_here(template, fitted(ORDERS[order], found(template)), {})
    assert all(message.content in text for message in ORDERS[order])


def test_a_question_after_a_tools_result_is_taken() -> None:
    chat = (S, U, CALL, RESULT, V)
    with pytest.raises(SandboxRefusal):
        fill_here(MISTRAL, chat, {})
    sent = fitted(chat, found(MISTRAL))
    assert [one.content for one in sent] == ["S1", "U1", "", "R1", NO_ANSWER, "U2"]
    assert "[user]U2" in fill_here(MISTRAL, sent, {})


def test_a_system_text_goes_before_the_first_question_where_the_template_refuses_it() -> None:
    sent = fitted((S, U, V, A, V), found(GEMMA))
    assert [(one.role, one.content) for one in sent] == [
        ("user", "S1\n\nU1\n\nU2"), ("assistant", "A1"), ("user", "U2"),
    ]  # fmt: skip


def test_a_system_message_alone_is_the_users_only_where_the_template_takes_none() -> None:
    assert fitted((S,), found(TURNS)) == [S]
    assert fitted((S, S), found(GEMMA)) == [Message("user", "S1\n\nS1")]
    needs_a_question = (
        TURNS
        + "{% if messages | selectattr('role', 'equalto', 'user') | list == [] %}{{ fail() }}{% endif %}"
    )
    assert fitted((S,), found(needs_a_question)) == [Message("user", "S1")]
    shows_tools_there = (
        "{% for m in messages %}{% if m.role == 'user' and tools %}<tool_call>{{ tools | tojson }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    assert fitted((S,), found(shows_tools_there)) == [Message("user", "S1")]


def test_an_empty_answer_between_questions_is_told_where_roles_must_alternate() -> None:
    asked = (U, Message("assistant", ""), U)
    assert fitted(asked, found(GEMMA))[1].content == NO_ANSWER
    assert fitted(asked, found(TURNS))[1].content == ""


def test_a_template_that_omits_the_system_message_does_not_take_it() -> None:
    omits = "{% for m in messages if m.role != 'system' %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    assert not found(omits).takes_system
    roles: list[PromptRole] = [one.role for one in fitted((S, U), found(omits))]
    assert roles == ["user"]


OMITTING = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if shown and m.tool_calls %}{{ m.tool_calls }}{% endif %}"
    "{% endfor %}{% if tools %}%s{{ tools | tojson }}{% endif %}"
)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("List of tools: [", '<|tool_call_start|>[f(a="b", n=1), g()]<|tool_call_end|>'),
        (
            "<|tool_call|>",
            '<|tool_call|>[{"name": "f", "arguments": {"a": "b", "n": 1}}, {"name": "g", "arguments": {}}]',
        ),
    ],
)
def test_calls_that_the_template_omits_are_in_the_text_in_the_models_form(words: str, written: str) -> None:
    form = found(OMITTING.replace("%s", words))
    asked = (Message("user", "Go"), Message("assistant", "So.", CALLED), Message("tool", "one", call_id="1"))
    assert [one.content for one in fitted(asked, form)] == ["Go", f"So.{written}", "one"]
    shown = found("{% set shown = true %}" + OMITTING.replace("%s", words))
    assert fitted(asked, shown) == list(asked)


def test_tools_may_be_expected_in_the_system_message() -> None:
    """As Phi-4-mini's template does, which shows no calls."""
    tools = "{% if m.role == 'system' and m['tools'] %}<|tool|>{{ m['tools'] }}<|/tool|>{% endif %}"
    turns = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}" + tools + "<|end|>{% endfor %}"
    template = turns.replace(" m ", " message ").replace("m.", "message.").replace("m[", "message[")
    calls = found(template).reply.calls
    assert calls.shows_tools and calls.omits_calls
    written = '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]<|/tool_call|>'
    assert calls.written([("f", '{"a": 1}')]) == written
    asked, told = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}
    values = {"tools": [{"name": "f"}]}
    assert (
        fill(template, [asked], values)
        == '<|system|><|tool|>[{"name": "f"}]<|/tool|><|end|><|user|>Hi<|end|>'
    )
    begin = '<|system|>Be brief.<|tool|>[{"name": "f"}]<|/tool|><|end|>'
    assert fill(template, [told, asked], values) == f"{begin}<|user|>Hi<|end|>"
    assert fill(template, [asked], {}) == "<|user|>Hi<|end|>"


def test_a_template_that_pastes_arguments_gets_them_as_json() -> None:
    call = '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments }}}'
    each = "{% for c in m.tool_calls or [] %}<tool_call>" + call + "</tool_call>{% endfor %}"
    turns = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}" + each + "<|end|>{% endfor %}"
    calls = found("{{ tools | tojson if tools }}" + turns).reply.calls
    assert (calls.kind, calls.takes_text, calls.name_key) == ("object", True, "name")
