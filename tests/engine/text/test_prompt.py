"""Requests to token ids: the same on every thread, and no more of a text to draft from than a reply has."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.engine.loading.loading import LoadedModel, load
from app.engine.session.session import request_tokenizer
from app.engine.text.prompt import CHARACTERS_PER_TOKEN, RequestTokenizer, encode
from app.errors import BadOption, PromptTooLong
from app.values.messages import Message, ModelFolder, Request, ToolCall
from tests.engine.asking import CPU
from tests.engine.tiny import DEMO

CHAT = (Message("system", "Be brief."), Message("user", "Hello"))


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(DEMO)
    return found


def text_of(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def test_a_chat_goes_through_the_models_template_and_asks_for_an_answer(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    expected = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert text_of(tokenizer, encode(tokenizer, CHAT, 1024)) == expected


def test_raw_text_is_sent_as_it_is(tokenizer: PreTrainedTokenizerBase) -> None:
    assert encode(tokenizer, "Once upon a time", 1024) == tokenizer("Once upon a time").input_ids


def test_a_model_without_a_template_continues_a_written_dialogue(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = None
    ids = encode(tokenizer, CHAT, 1024)
    assert text_of(tokenizer, ids) == "System: Be brief.\nUser: Hello\nAssistant:"


def test_a_prompt_must_leave_room_for_a_token_of_the_reply(tokenizer: PreTrainedTokenizerBase) -> None:
    count = len(encode(tokenizer, CHAT, 1024))
    assert len(encode(tokenizer, CHAT, count + 1)) == count
    with pytest.raises(PromptTooLong, match=f"The prompt has {count} tokens and the model's context holds"):
        encode(tokenizer, CHAT, count)


def test_a_chat_that_the_template_refuses_is_refused_in_words(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = "{{ raise_exception('No system messages') }}"
    with pytest.raises(BadOption, match=r"refuses this chat \(No system messages\): start a new chat"):
        encode(tokenizer, CHAT, 1024)


def test_a_prompt_that_becomes_no_tokens_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = "{{ '' }}"
    with pytest.raises(BadOption, match="The prompt has no tokens for this model"):
        encode(tokenizer, CHAT, 1024)


TELLS_OF_TOOLS = (
    "{{ tools | tojson }}{% for message in messages %} {{ message.role }}: {{ message.content }}"
    "{% for call in message.tool_calls or () %}{{ call.function.name }} in {{ call.function.arguments.city }}"
    "{% endfor %}{{ message.tool_call_id }}{% endfor %}"
)


def test_a_template_is_told_of_tools_calls_and_results_and_none_of_them_is_a_control_token(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    tokenizer.chat_template = TELLS_OF_TOOLS
    ending = str(tokenizer.eos_token)
    tools = json.dumps([{"type": "function", "function": {"name": "weather", "description": f"Sun{ending}"}}])
    call = ToolCall("abcdefghi", "weather", json.dumps({"city": f"Rome{ending}"}))
    chat = (
        Message("user", "Is it warm?"),
        Message("assistant", "", (call,)),
        Message("tool", f"30 degrees{ending}", call_id="abcdefghi", name="weather"),
    )
    ids = encode(tokenizer, chat, 4096, tools=tools)
    text = tokenizer.decode(ids)
    assert f"Sun{ending}" in text and "user: Is it warm?" in text
    assert f"assistant: weather in Rome{ending}" in text and f"tool: 30 degrees{ending}abcdefghi" in text
    assert tokenizer.eos_token_id not in ids


def test_a_chat_that_ends_with_a_call_is_not_continued(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TELLS_OF_TOOLS
    chat = (Message("user", "Go"), Message("assistant", "", (ToolCall("a", "f", '{"city": "Oslo"}'),)))
    assert RequestTokenizer(tokenizer, 1024).encoded(chat).begun == []
    assert "f in Oslo" in tokenizer.decode(encode(tokenizer, chat, 4096))


@pytest.fixture(scope="module")
def loaded(model_folders: dict[str, Path]) -> LoadedModel:
    return load(ModelFolder(model_folders["tiny"], "tiny"), CPU)


def chat(*contents: str) -> tuple[Message, ...]:
    return tuple(
        Message("user" if place % 2 == 0 else "assistant", one) for place, one in enumerate(contents)
    )


def test_they_are_what_the_models_own_tokenizer_makes_on_all_threads_at_once(loaded: LoadedModel) -> None:
    tokenizer = request_tokenizer(loaded)
    texts = [f"{'Hi there. ' * (number % 9)}<|im_end|> {number}" for number in range(60)]
    prompts = [*map(chat, texts), *texts, chat("Hello", "It is")]
    expected = [encode(loaded.tokenizer, prompt, loaded.info.context) for prompt in prompts]
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda prompt: tokenizer.tokens(Request(CPU, prompt)), prompts))
        own = [encode(loaded.tokenizer, prompt, loaded.info.context) for prompt in prompts]
    assert [one.prompt for one in made] == expected == own
    assert made[-1].begun == made[-1].prompt[-len(made[-1].begun) :] != []
    assert {id(one.made_by) for one in made} == {id(tokenizer)}


@pytest.mark.parametrize("text", ["hello world " * 100_000, " " * 1_000_000, "é" * 500_000])
def test_a_text_to_draft_from_has_no_more_tokens_than_the_context(loaded: LoadedModel, text: str) -> None:
    made = request_tokenizer(loaded).tokens(Request(CPU, "Hi", documents=(text,), prediction=text))
    whole = loaded.tokenizer(text[: 2 * CHARACTERS_PER_TOKEN * loaded.info.context]).input_ids
    assert list(made.prediction) == whole[: len(made.prediction)]
    assert made.documents == (made.prediction,)
    assert 0 < len(made.prediction) <= loaded.info.context


def test_what_fits_is_not_cut_and_what_does_not_is_told_how_much_it_is(loaded: LoadedModel) -> None:
    tokenizer, context = request_tokenizer(loaded), loaded.info.context
    fitting = " a" * (context - 1)
    made = tokenizer.tokens(Request(CPU, fitting, prediction=fitting))
    assert len(made.prompt) == len(made.prediction) == context - 1
    with pytest.raises(PromptTooLong, match=rf"has {context} tokens and the model's context holds {context}"):
        tokenizer.tokens(Request(CPU, " a" * context))
    for prompt in (" a" * 500_000, chat("word " * 200_000), chat("Go on", "word " * 200_000)):
        with pytest.raises(PromptTooLong, match=r"has at least [\d,]+ tokens"):
            tokenizer.tokens(Request(CPU, prompt))
