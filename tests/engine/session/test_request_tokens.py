"""A request's texts as tokens: the same on every thread, and no more of a text to draft from than a reply has."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.engine.loading.loading import LoadedModel, load
from app.engine.text.prompt import CHARACTERS_PER_TOKEN, RequestTokenizer, encode
from app.errors import PromptTooLong
from app.values.messages import Message, ModelFolder, Request
from tests.engine.asking import CPU


@pytest.fixture(scope="module")
def loaded(model_folders: dict[str, Path]) -> LoadedModel:
    return load(ModelFolder(model_folders["tiny"], "tiny"), CPU)


def chat(*contents: str) -> tuple[Message, ...]:
    return tuple(
        Message("user" if place % 2 == 0 else "assistant", one) for place, one in enumerate(contents)
    )


def test_they_are_what_the_models_own_tokenizer_makes_on_all_threads_at_once(loaded: LoadedModel) -> None:
    tokenizer = RequestTokenizer(loaded)
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
    made = RequestTokenizer(loaded).tokens(Request(CPU, "Hi", documents=(text,), prediction=text))
    whole = loaded.tokenizer(text[: 2 * CHARACTERS_PER_TOKEN * loaded.info.context]).input_ids
    assert list(made.prediction) == whole[: len(made.prediction)]
    assert made.documents == (made.prediction,)
    assert 0 < len(made.prediction) <= loaded.info.context


def test_what_fits_is_not_cut_and_what_does_not_is_told_how_much_it_is(loaded: LoadedModel) -> None:
    tokenizer, context = RequestTokenizer(loaded), loaded.info.context
    fitting = " a" * (context - 1)
    made = tokenizer.tokens(Request(CPU, fitting, prediction=fitting))
    assert len(made.prompt) == len(made.prediction) == context - 1
    with pytest.raises(PromptTooLong, match=rf"has {context} tokens and the model's context holds {context}"):
        tokenizer.tokens(Request(CPU, " a" * context))
    for prompt in (" a" * 500_000, chat("word " * 200_000), chat("Go on", "word " * 200_000)):
        with pytest.raises(PromptTooLong, match=r"has at least [\d,]+ tokens"):
            tokenizer.tokens(Request(CPU, prompt))
