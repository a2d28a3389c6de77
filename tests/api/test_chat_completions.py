"""Chat completions, asked for by OpenAI's own client at a real server with a real model."""

import asyncio
import json
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from app.api.application import RunningApi
from app.api.chat_completions import ChatCompletionPlan, ChatRequest, chat_plan
from app.api.services import ApiServices, served_model
from app.engine import Engine
from app.values.messages import ModelChoice
from tests.api.conftest import KEY
from tests.tiers import named, some

MESSAGES: Any = [{"role": "user", "content": "What is lookahead decoding?"}]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
        },
    },
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 0.9, "seed": 7, "top_p": 0.95},
    "penalties": {"temperature": 0.7, "seed": 3, "frequency_penalty": 1.2, "presence_penalty": 0.4},
    "greedy with penalties": {
        "temperature": 0,
        "frequency_penalty": 0.8,
        "logit_bias": {"300": 4, "17": -100},
    },
    "json_schema": {"temperature": 1, "seed": 5, "response_format": FORMAT, "max_tokens": 60},
    "json_object": {"temperature": 0.8, "seed": 8, "response_format": {"type": "json_object"}},
    "forced tool": {"seed": 5, "tools": [WEATHER], "tool_choice": "required", "max_tokens": 60},
    "tools": {"temperature": 0, "tools": [WEATHER]},
}


def ask(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "demo", "messages": MESSAGES, "max_tokens": 24, **more})


def streamed(client: openai.OpenAI, **more: Any) -> list[Any]:
    return list(ask(client, stream=True, stream_options={"include_usage": True}, **more))


def text_of(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def shown(completion: Any) -> Any:
    """What the text is, without ids and numbers."""
    choice = completion.choices[0]
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    return choice.message.content, calls, choice.finish_reason


def test_the_usage_tells_what_was_drafted_and_cached(client: openai.OpenAI) -> None:
    ask(client, temperature=0)
    completion = ask(client, temperature=0)
    usage = completion.usage
    assert completion.object == "chat.completion" and completion.model == "demo"
    assert usage.completion_tokens == 24 and completion.choices[0].finish_reason == "length"
    assert usage.total_tokens == usage.prompt_tokens + 24
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens
    assert usage.completion_tokens_details.accepted_prediction_tokens > 0
    assert usage.completion_tokens_details.rejected_prediction_tokens >= 0
    block = completion.foresight
    assert block["tokens_per_step"] > 1 and 0 < block["hit_rate"] <= 1 and block["rows_per_step"] > 1
    assert sum(block["sources"].values()) == 24 and block["draft_model"] == ""


@pytest.mark.parametrize("decoder", some(named(("auto", "lookahead", "prompt-lookup")), "auto"))
@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_the_same_with_lookahead_on_and_off(
    client: openai.OpenAI, kind: str, decoder: str
) -> None:
    plain, other = (
        shown(ask(client, **KINDS[kind], extra_body={"foresight": {"decoder": name}}))
        for name in ("plain", decoder)
    )
    assert other == plain


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_texts_are_the_same_whole_and_streamed(
    client: openai.OpenAI, kind: str, seed: int
) -> None:
    asked = {**KINDS[kind], "seed": seed, "messages": [{"role": "user", "content": f"Tell me about {seed}."}]}
    plain = ask(client, **asked, extra_body={"foresight": {"decoder": "plain"}})
    assert shown(ask(client, **asked)) == shown(plain)
    chunks = streamed(client, **asked)
    assert text_of(chunks) == (plain.choices[0].message.content or "")
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens


@pytest.mark.parametrize("kind", ["greedy", "sampled", "json_schema", "forced tool"])
def test_a_stream_brings_what_the_whole_answer_has(client: openai.OpenAI, kind: str) -> None:
    whole, chunks = ask(client, **KINDS[kind]), streamed(client, **KINDS[kind])
    assert text_of(chunks) == (whole.choices[0].message.content or "")
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_chunks_come_in_their_order(client: openai.OpenAI) -> None:
    first, *content, end, usage = streamed(client, temperature=0)
    assert first.choices[0].delta.role == "assistant" and not first.choices[0].delta.content
    assert all(chunk.choices[0].delta.role is None for chunk in content)
    assert all(chunk.choices[0].finish_reason is None for chunk in (first, *content))
    assert end.choices[0].finish_reason == "length" and not end.choices[0].delta.content
    assert usage.choices == [] and usage.usage.completion_tokens == 24
    for chunk in (first, *content, end, usage):
        assert chunk.id == first.id and chunk.object == "chat.completion.chunk" and chunk.created > 0
        assert all(choice.index == 0 for choice in chunk.choices)


def test_choices_have_their_own_seeds(client: openai.OpenAI) -> None:
    completion = ask(client, n=3, seed=11, temperature=1)
    texts = [choice.message.content for choice in completion.choices]
    assert [choice.index for choice in completion.choices] == [0, 1, 2] and len(set(texts)) > 1
    assert texts[1] == ask(client, seed=12, temperature=1).choices[0].message.content
    assert completion.usage.completion_tokens <= 3 * 24


def test_log_probabilities_are_of_the_tokens_of_the_text(client: openai.OpenAI) -> None:
    completion = ask(client, temperature=0, logprobs=True, top_logprobs=3)
    tokens = completion.choices[0].logprobs.content
    assert len(tokens) == 24
    assert "".join(token.token for token in tokens) == completion.choices[0].message.content
    for token in tokens:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)  # greedy takes the likeliest
    chunks = streamed(client, temperature=0, logprobs=True)
    found = [
        one for chunk in chunks for choice in chunk.choices for one in getattr(choice.logprobs, "content", ())
    ]
    assert [one.token for one in found] == [one.token for one in tokens]


def test_a_stop_string_ends_the_text_and_does_not_show(client: openai.OpenAI) -> None:
    whole = ask(client, temperature=0).choices[0].message.content
    stop = whole.split()[4]
    choice = ask(client, temperature=0, stop=[stop]).choices[0]
    assert choice.message.content == whole[: whole.index(stop)] and choice.finish_reason == "stop"


@pytest.mark.parametrize("temperature", [1e-300, 1e-8])
def test_a_tiny_temperature_is_greedy(client: openai.OpenAI, temperature: float) -> None:
    tiny, zero = (ask(client, temperature=one, max_tokens=8) for one in (temperature, 0))
    assert shown(tiny) == shown(zero)


def test_a_bias_forbids_a_token(client: openai.OpenAI) -> None:
    word = ask(client, temperature=0, logprobs=True).choices[0].logprobs.content[0].token
    free = ask(client, temperature=0, max_tokens=1).choices[0].message.content
    assert free == word
    biased = [
        ask(
            client,
            temperature=0,
            max_tokens=1,
            logit_bias={str(token): -100 for token in range(start, start + 1024)},
        )
        for start in range(0, 4096, 1024)
    ]
    assert sum(one.choices[0].message.content != word for one in biased) == 1


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_matches_its_schema(client: openai.OpenAI, seed: int) -> None:
    text = ask(client, response_format=FORMAT, seed=seed, max_tokens=200).choices[0].message.content
    jsonschema.validate(json.loads(text), PERSON)


def test_an_answer_matches_a_regular_expression(client: openai.OpenAI) -> None:
    form = {"type": "regex", "regex": "(yes|no), [a-z]{3}\\."}
    text = ask(client, extra_body={"response_format": form}, seed=1).choices[0].message.content
    assert text[:2] in ("ye", "no") and text.endswith(".")


def test_a_forced_call_is_streamed_with_its_id_and_name_once(client: openai.OpenAI) -> None:
    chunks = streamed(client, **KINDS["forced tool"])
    parts = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert [part.index for part in parts] == [0] * len(parts)
    assert [part.function.name for part in parts if part.function.name] == ["weather"]
    assert len([part.id for part in parts if part.id]) == 1
    arguments = json.loads("".join(part.function.arguments or "" for part in parts))
    jsonschema.validate(arguments, WEATHER["function"]["parameters"])  # type: ignore[index]
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


def test_calls_and_results_are_read_and_answered(client: openai.OpenAI) -> None:
    call = {"id": None, "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": "Sunny."},
    ]
    completion = ask(client, messages=messages, tools=[WEATHER], temperature=0)
    assert completion.usage.prompt_tokens > 100 and completion.choices[0].message.role == "assistant"


def test_a_prediction_changes_no_text_and_is_accepted(client: openai.OpenAI) -> None:
    question: Any = [{"role": "user", "content": "How does lookahead decoding work?"}]
    plain = ask(client, messages=question, temperature=0, extra_body={"foresight": {"decoder": "plain"}})
    text = plain.choices[0].message.content
    predicted = ask(
        client,
        messages=question,
        temperature=0,
        prediction={"type": "content", "content": text},
        extra_body={"foresight": {"decoder": "lookahead"}},
    )
    assert predicted.choices[0].message.content == text
    assert predicted.usage.completion_tokens_details.accepted_prediction_tokens > 0


def test_null_is_as_good_as_left_out_and_unknown_fields_are_ignored(client: openai.OpenAI) -> None:
    nothing = dict.fromkeys(
        ("top_p", "n", "stop", "tools", "tool_choice", "response_format", "logit_bias", "stream_options")
    )
    more = {"prompt_cache_key": "x", "store": True, "parallel_tool_calls": False, "reasoning_effort": "low"}
    assert ask(client, temperature=0, extra_body={**nothing, **more}).choices[0].message.content


def test_half_a_character_is_read_as_a_question_mark(server: RunningApi) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi \ud800 there"}]}]
    body = json.dumps({"messages": messages, "max_tokens": 3, "stop": ["\udfff"]})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    url = f"{server.url}/chat/completions"
    assert httpx.post(url, content=body, headers=headers, timeout=300).status_code == 200


@pytest.mark.parametrize(
    ("message", "tools", "form", "is_read"),
    [
        ({"role": "user", "content": "Hi"}, [], None, False),
        ({"role": "user", "content": "Hi"}, [{"function": {"name": "tool"}}], None, True),
        ({"role": "tool", "content": "21", "tool_call_id": "1"}, [], None, True),
        ({"role": "user", "content": "Hi"}, [], {"type": "json_object"}, True),
    ],
)
def test_a_template_is_read_only_for_tools_or_a_form_of_the_answer(
    engine: Engine, message: dict[str, str], tools: list[object], form: object, is_read: bool
) -> None:
    choices = list[ModelChoice]()

    def template(choice: ModelChoice) -> str:
        choices.append(choice)
        return ""

    model = served_model(ModelChoice("demo"))
    services = ApiServices(engine, lambda: model, list, lambda: None, template)
    asked = ChatRequest.model_validate({"messages": [message], "tools": tools, "response_format": form})
    asyncio.run(chat_plan(services, asked, ChatCompletionPlan))
    assert bool(choices) == is_read
