"""Models, completions, embeddings and responses, asked for by OpenAI's own client."""

import gzip
import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from transformers import AutoTokenizer

from app.api.application import RunningApi
from app.values.messages import ModelFolder
from tests.api.conftest import KEY
from tests.api.test_chat_completions import PERSON, WEATHER
from tests.engine.tiny import DEMO

FLAT_TOOL = {"type": "function", **WEATHER["function"]}  # type: ignore[dict-item]


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    found = list(client.models.list())
    assert found[0].id == "demo" and all(model.object == "model" for model in found)
    assert client.models.retrieve("demo").owned_by == "foresight"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/none")


def test_the_list_of_models_has_a_slash_and_a_head_too(server: RunningApi) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    listed = httpx.get(f"{server.url}/models", headers=headers).json()
    assert httpx.get(f"{server.url}/models/", headers=headers).json() == listed
    assert httpx.head(f"{server.url}/models", headers=headers).status_code == 200
    assert httpx.head(f"{server.url}/models/demo", headers=headers).status_code == 200
    assert httpx.get(f"{server.url}/models", headers={**headers, "Host": "[::1]:80"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "encoding", "status", "words"),
    [
        (b'{"prompt": "\xff"}', "identity", 400, "is not UTF-8 text"),
        (b'{"prompt": "x"}', "gzip", 415, "is compressed (gzip)"),
        (
            b'{"prompt": "x", "temperature": NaN}',
            "identity",
            400,
            "temperature: Input should be a finite number",
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_for_its_true_reason(
    server: RunningApi, body: bytes, encoding: str, status: int, words: str
) -> None:
    headers = {
        "Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Content-Encoding": encoding,
    }  # fmt: skip
    sent = gzip.compress(body) if encoding == "gzip" else body
    refused = httpx.post(f"{server.url}/completions", content=sent, headers=headers)
    assert refused.status_code == status and words in refused.json()["error"]["message"]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", ["/v1/completions", "/api/generate"])
def test_a_body_is_json_whatever_its_content_type(server: RunningApi, kind: str | None, path: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}"} | ({"Content-Type": kind} if kind else {})
    body = b'{"model": "demo", "prompt": "Once", "max_tokens": 1, "options": {"num_predict": 1}, "stream": false}'
    answer = httpx.post(server.url.removesuffix("/v1") + path, content=body, headers=headers, timeout=300)
    assert answer.status_code == 200, answer.text


def test_values_that_mean_none_elsewhere_are_none(client: openai.OpenAI) -> None:
    usual: Any = {"model": "demo", "prompt": "Once upon a", "temperature": 0, "stop": [" "]}
    expected = client.completions.create(**usual)
    for more in ({"max_tokens": -1}, {"max_tokens": 2**40}, {"logit_bias": []}):
        found = client.completions.create(**usual, extra_body=more)
        assert found.choices[0].text == expected.choices[0].text


def test_a_stream_can_be_split_at_any_end_of_a_line(server: RunningApi) -> None:
    text = "a\u2028b\u0085c\u2029"
    form = {"type": "regex", "regex": text}
    body = {"prompt": "Write", "temperature": 0, "stream": True, "response_format": form}
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.stream("POST", f"{server.url}/completions", json=body, headers=headers, timeout=300) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    assert "".join(one["text"] for chunk in chunks for one in chunk["choices"]) == text


def test_text_goes_on(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="demo", prompt="Once upon a", temperature=0, max_tokens=8)
    chunks = list(
        client.completions.create(
            model="demo", prompt="Once upon a", temperature=0, max_tokens=8, stream=True
        )
    )
    assert whole.choices[0].text == "".join(chunk.choices[0].text for chunk in chunks)
    assert whole.usage and whole.usage.completion_tokens == 8
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


def test_without_a_limit_the_context_ends_a_completion(client: openai.OpenAI) -> None:
    found = client.completions.create(model="demo", prompt="Once upon a", temperature=0)
    assert found.usage and found.usage.completion_tokens > 16
    assert found.choices[0].finish_reason in ("stop", "length")


def test_each_prompt_has_its_choices(client: openai.OpenAI) -> None:
    found = client.completions.create(
        model="demo", prompt=["Once", "The sea"], n=2, max_tokens=4, logprobs=1, seed=1
    )
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    prompts = [
        client.completions.create(model="demo", prompt=one, max_tokens=1) for one in ("Once", "The sea")
    ]
    assert found.usage and found.usage.prompt_tokens == sum(
        one.usage.prompt_tokens for one in prompts if one.usage
    )
    logprobs = found.choices[0].logprobs
    assert logprobs and len(logprobs.tokens or ()) == 4


def test_each_token_of_a_completion_has_its_place_in_the_text(client: openai.OpenAI) -> None:
    def asked(stream: bool) -> Any:
        return client.completions.create(
            model="demo", prompt="Once upon a", temperature=0, max_tokens=12, logprobs=1, stream=stream
        )

    choice = asked(False).choices[0]
    for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)
    parts = [one.logprobs for chunk in asked(True) for one in chunk.choices if one.logprobs]
    assert [offset for part in parts for offset in part.text_offset] == choice.logprobs.text_offset


def test_a_prompt_is_repeated_with_its_log_probabilities(client: openai.OpenAI) -> None:
    def asked(prompt: Any, **more: Any) -> Any:
        given = {"prompt": prompt, "temperature": 0, "logprobs": 2, "echo": True, "max_tokens": 3, **more}
        return client.completions.create(model="demo", **given)

    ids = AutoTokenizer.from_pretrained(DEMO)("Once upon a 漢").input_ids
    text, of_ids = (asked(prompt).choices[0] for prompt in ("Once upon a 漢", ids))
    assert text.text == of_ids.text and text.text.startswith("Once upon a 漢")
    assert text.logprobs.tokens == of_ids.logprobs.tokens
    numbers = text.logprobs.token_logprobs
    assert numbers[0] is None and text.logprobs.top_logprobs[0] is None
    assert len(numbers) == len(ids) + 3 and all(number <= 0 for number in numbers[1:])

    def are_alike(others: list[float | None]) -> bool:
        return others[0] is None and others[1:] == pytest.approx(numbers[1 : len(others)], abs=1e-4)

    assert are_alike(of_ids.logprobs.token_logprobs)
    prompt_only = asked([ids, ids[:2]], max_tokens=0)
    assert [len(one.logprobs.tokens) for one in prompt_only.choices] == [len(ids), 2]
    assert all(are_alike(one.logprobs.token_logprobs) for one in prompt_only.choices)
    assert prompt_only.choices[0].text == "Once upon a 漢" and prompt_only.usage.completion_tokens == 0
    chunks = [one for chunk in asked(ids, stream=True) for one in chunk.choices]
    assert "".join(one.text for one in chunks) == text.text
    parts = [one.logprobs for one in chunks if one.logprobs]
    assert are_alike([number for part in parts for number in part.token_logprobs])
    assert [place for part in parts for place in part.text_offset] == text.logprobs.text_offset


def test_a_prompt_is_repeated_without_log_probabilities(client: openai.OpenAI) -> None:
    ids = AutoTokenizer.from_pretrained(DEMO)("Once upon a").input_ids
    for prompt in ("Once upon a", ids):
        found = client.completions.create(model="demo", prompt=prompt, echo=True, max_tokens=2, temperature=0)
        assert found.choices[0].text.startswith("Once upon a") and found.choices[0].logprobs is None
        assert found.usage and found.usage.completion_tokens == 2


def test_a_token_id_that_the_model_has_not_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="token id 999,999"):
        client.completions.create(model="demo", prompt=[1, 999_999])


def test_log_probabilities_have_the_tokens_own_bytes(client: openai.OpenAI) -> None:
    ids = AutoTokenizer.from_pretrained(DEMO)("漢").input_ids
    found = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": "x"}],
        response_format={"type": "regex", "regex": "漢"},  # type: ignore[misc]
        logprobs=True,
        top_logprobs=1,
    )
    logprobs = found.choices[0].logprobs
    assert len(ids) > 1 and logprobs and logprobs.content
    parts = [bytes(one.bytes or ()) for one in logprobs.content[: len(ids)]]
    assert b"".join(parts).decode() == "漢" and all(parts)


def test_with_a_limit_of_0_tokens_the_prompt_is_only_read(client: openai.OpenAI) -> None:
    asked: Any = {"model": "demo", "messages": [{"role": "user", "content": "The cat sat on the mat."}]}
    empty = client.chat.completions.create(**asked, max_tokens=0)
    assert empty.choices[0].message.content == "" and empty.choices[0].finish_reason == "length"
    then = client.chat.completions.create(**asked, max_tokens=1)
    assert then.usage and then.usage.prompt_tokens_details and empty.usage
    assert then.usage.prompt_tokens_details.cached_tokens == empty.usage.prompt_tokens - 1


@pytest.mark.parametrize(
    ("more", "param"),
    [({"suffix": "x"}, "suffix"), ({"prompt": [""]}, "prompt"), ({"best_of": 2}, "best_of")],
)
def test_what_a_completion_cannot_do(client: openai.OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": "demo", "prompt": "x", **more})
    assert refused.value.param == param


@pytest.mark.parametrize("prompt", [[5, -1], ["a", 1], [1.5], {"a": 1}, ""])
def test_a_prompt_of_the_wrong_type_is_told_all_types(client: openai.OpenAI, prompt: Any) -> None:
    words = "prompt: must be a text, a list of texts, or the token ids of one or several texts"
    with pytest.raises(openai.BadRequestError, match=words):
        client.completions.create(model="demo", prompt=prompt)


def test_embeddings_are_the_same_in_every_form(client: openai.OpenAI, embedder: ModelFolder | None) -> None:
    if embedder is None:
        pytest.skip("all-MiniLM-L6-v2 is not installed")
    texts = ["A cat sat.", "Stocks fell."]
    coded = client.embeddings.create(model=embedder.name, input=texts)
    plain = client.embeddings.create(model=embedder.name, input=texts, encoding_format="float")
    rows = np.array([one.embedding for one in plain.data])
    assert rows.shape == (2, 384) and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.array_equal(
        np.array([one.embedding for one in coded.data], np.float32), rows.astype(np.float32)
    )
    ids: Any = [[1037, 4937, 2938, 1012], [15768, 3062, 1012]]
    by_ids = client.embeddings.create(model=embedder.name, input=ids, encoding_format="float")
    assert np.allclose(np.array([one.embedding for one in by_ids.data]), rows, atol=1e-5)
    assert plain.usage.prompt_tokens == 6 + 5
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length"):
        client.embeddings.create(model=embedder.name, input=[[99_999]])


def test_a_response_is_told_by_events_and_as_a_whole(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "demo",
        "input": "What is lookahead decoding?",
        "temperature": 0,
        "max_output_tokens": 12,
    }
    whole = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    assert whole.status == "incomplete" and whole.incomplete_details
    assert whole.incomplete_details.reason == "max_output_tokens"
    assert (
        "".join(event.delta for event in events if event.type == "response.output_text.delta")
        == whole.output_text
    )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    ]  # fmt: skip
    assert kinds[-4:] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.incomplete",
    ]  # fmt: skip
    assert whole.usage and whole.usage.output_tokens == 12


def test_a_response_calls_functions_and_reads_their_results(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "demo",
        "input": "Weather?",
        "tools": [FLAT_TOOL],
        "tool_choice": "required",
        "seed": 2,
    }
    response = client.responses.create(
        **{key: value for key, value in asked.items() if key != "seed"}, extra_body={"seed": 2}
    )
    (call,) = response.output
    assert call.type == "function_call" and call.name == "weather" and "city" in json.loads(call.arguments)
    items: Any = [
        {"role": "user", "content": "Weather?"},
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."},
    ]
    answer = client.responses.create(model="demo", input=items, max_output_tokens=8)
    assert answer.output[0].type == "message"


def test_a_response_in_a_form(client: openai.OpenAI) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
    response = client.responses.create(model="demo", input="Who?", text=form, max_output_tokens=200)
    assert set(json.loads(response.output_text)) == {"name", "age"}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        (
            {"tools": [{"type": "function", "name": "x", "parameters": {"type": "array"}}]},
            "tools[0].parameters",
        ),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"extra_body": {"response_format": {"type": "json_object"}}}, "response_format"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input[0].role"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nonsense"}}}},
            "text.format",
        ),
    ],
)
def test_what_a_response_cannot_do(client: openai.OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "demo", "input": "x", **more})
    assert refused.value.param == param
