"""The values that cross layers refuse the impossible and say what they were given."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import PromptTooLong
from app.values.messages import Decoding, Message, ModelChoice, Options, Request, Sampling

NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (
            Message,
            {"role": "robot", "content": ""},
            "role must be system, user, assistant or tool; it is “robot”",
        ),
        (Sampling, {"temperature": -0.1}, "temperature must be from 0 to 100; it is -0.1"),
        (Sampling, {"temperature": NAN}, "temperature must be from 0 to 100; it is nan"),
        (Sampling, {"temperature": 1e-300}, "temperature must be 0 or at least 1e-05; it is 1e-300"),
        (Sampling, {"top_k": -1}, "top-k must be 0 (off) or more; it is -1"),
        (Sampling, {"top_p": 0.0}, "top-p must be above 0 and at most 1; it is 0.0"),
        (Sampling, {"top_p": 1.01}, "top-p must be above 0 and at most 1; it is 1.01"),
        (Sampling, {"min_p": 1.0}, "min-p must be at least 0 and below 1; it is 1.0"),
        (Sampling, {"repetition_penalty": 0.0}, "repetition penalty must be from 0.01 to 100; it is 0.0"),
        (Sampling, {"seed": -1}, "seed must be from 0 to 2^63-1; it is -1"),
        (Sampling, {"seed": 2**63 + 1}, f"seed must be from 0 to 2^63-1; it is {2**63 + 1}"),
        (
            Decoding,
            {"decoder": "fast"},
            "decoder must be one of auto, lookahead, plain, prompt-lookup, jacobi; it is “fast”",
        ),
        (Decoding, {"window": 129}, "W (window) must be from 0 (off) to 128; it is 129"),
        (Decoding, {"ngram": 1}, "N (n-gram) must be from 2 to 16; it is 1"),
        (Decoding, {"guesses": -1}, "G (guesses) must be from 0 (off) to 128; it is -1"),
        (Options, {"max_new_tokens": -1}, "max new tokens must be 0 (no limit) or more; it is -1"),
        (Options, {"stop": ("a", "")}, "a stop string must not be empty; it is “a”, “”"),
        (ModelChoice, {"name": "  "}, "model must be a folder or a hub id; it is “  ”"),
        (ModelChoice, {"name": "demo", "dtype": "int8"}, "dtype must be one of auto, float32"),
        (
            ModelChoice,
            {"name": "demo", "device": "tpu"},
            "device must be one of auto, cpu, cuda; it is “tpu”",
        ),
        (
            ModelChoice,
            {"name": "demo", "quantisation": "int2"},
            "quantisation must be one of auto, none, int8, int4; it is “int2”",
        ),
        (
            ModelChoice,
            {"name": "demo", "attention": "fast"},
            "attention must be one of auto, sdpa, native, triton, flash; it is “fast”",
        ),
        (
            Request,
            {"model": ModelChoice("demo"), "prompt": ()},
            "the prompt must not be empty; it is nothing",
        ),
        (Request, {"model": ModelChoice("demo"), "prompt": ""}, "the prompt must not be empty; it is “”"),
    ],
)
def test_impossible_values_are_refused_and_shown(
    make: Callable[..., object], arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make(**arguments)


def test_the_limits_themselves_are_possible() -> None:
    Sampling(temperature=100, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=100, seed=2**63 - 1)
    Sampling(1e-5, top_p=1e-9, min_p=0.999, repetition_penalty=0.01)
    Decoding(window=0, ngram=2, guesses=0)
    Decoding(window=128, ngram=16, guesses=128)
    Options(max_new_tokens=1)


def test_a_prompt_that_is_too_long_says_by_how_much_and_what_to_do() -> None:
    sentence = str(PromptTooLong(tokens=12_345, context=1024))
    assert "12,345" in sentence and "1,024" in sentence and "Shorten it" in sentence
