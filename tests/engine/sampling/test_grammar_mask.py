"""Whatever a model says, its reply matches the grammar, on whichever path a row is asked for."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import pytest
import torch
from llguidance import LLMatcher, LLTokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.engine.sampling.grammar_mask import GrammarMask, Grammars
from app.engine.sampling.sampling import Process, make_sampler
from app.engine.text.sandbox_main import WHITESPACE
from app.errors import GrammarRefused
from app.settings import assets_dir
from app.values.logits import Grammar
from app.values.messages import Sampling
from tests.tiers import numbered, some

PROMPT = [5, 6, 7]
LONGEST = 400
HALF = "\N{REPLACEMENT CHARACTER}"
"""What a character is whose other bytes are in the next token."""
NAMES = ("a", "name", "größe", 'q"uote', "x y")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(assets_dir() / "demo-model")
    return loaded


@pytest.fixture(scope="module")
def grammars() -> Iterator[Grammars]:
    yield Grammars()


def compiled(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase, grammar: Grammar, begun: Sequence[int] = ()
) -> GrammarMask:
    eos_ids = frozenset({tokenizer.eos_token_id})
    return grammars.compile(grammar, tokenizer, eos_ids, len(PROMPT) + len(begun), begun)


def random_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema of the kinds that clients send."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const"]
    kind = chance.choice(kinds + ["object", "array", "anyOf"] * (2 if depth < 3 else 0))
    below = lambda: random_schema(chance, depth + 1)  # noqa: E731
    match kind:
        case "object":
            properties = {name: below() for name in chance.sample(NAMES, chance.randint(1, 3))}
            required = [name for name in properties if chance.random() < 0.7]
            return {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        case "array":
            least = chance.randint(0, 2)
            return {
                "type": "array",
                "items": below(),
                "minItems": least,
                "maxItems": least + chance.randint(0, 2),
            }
        case "anyOf":
            return {"anyOf": [below(), below()]}
        case "string":
            return {"type": "string", "minLength": chance.randint(0, 2), "maxLength": chance.randint(2, 12)}
        case "integer":
            return {"type": "integer", "minimum": -chance.randint(0, 99), "maximum": chance.randint(0, 999)}
        case "number":
            return {"type": "number", "minimum": 0, "maximum": 9}
        case "enum":
            return {"enum": chance.sample([1, "one", None, True, 2.5], 2)}
        case "const":
            return {"const": chance.choice(["fixed", 7, False])}
        case other:
            return {"type": other}


def written(
    process: Process, tokenizer: PreTrainedTokenizerBase, seed: int, most: int = LONGEST
) -> tuple[str, bool]:
    """What noise writes under a grammar, and whether it came to its end."""
    sampler = make_sampler(Sampling(temperature=1.0, seed=seed), processes=[process])
    generator = torch.Generator().manual_seed(seed)
    tokens = list(PROMPT)
    for _ in range(most):
        logits = torch.randn(1, len(tokenizer), generator=generator) * 3
        token = sampler(logits).choose(0, tokens)
        if token == tokenizer.eos_token_id:
            return text_of(tokenizer, tokens), True
        tokens.append(token)
    return text_of(tokenizer, tokens), False


def text_of(tokenizer: PreTrainedTokenizerBase, tokens: list[int]) -> str:
    return str(tokenizer.decode(tokens[len(PROMPT) :], clean_up_tokenization_spaces=False))


@pytest.mark.parametrize("seed", some(numbered(range(500)), *map(str, range(0, 500, 25))))
def test_every_output_of_a_random_schema_validates(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase, seed: int
) -> None:
    schema = random_schema(random.Random(seed))
    grammar = Grammar("json_schema", json.dumps(schema))
    text, is_whole = written(compiled(grammars, tokenizer, grammar), tokenizer, seed)
    if is_whole:
        jsonschema.validate(json.loads(text), schema)
    cut, _ = written(compiled(grammars, tokenizer, grammar), tokenizer, seed, most=4)
    assert text.startswith(cut.rstrip(HALF))
    assert begins(schema, text) and begins(schema, cut)


def test_what_is_no_beginning_is_known() -> None:
    assert begins({"type": "array"}, "[1, 2") and begins({"enum": ["日本"]}, '"日')
    assert not begins({"type": "array"}, "[1,, 2") and not begins({"type": "integer"}, '{"a"')


def begins(schema: Any, text: str) -> bool:
    """Whether an answer may begin so, byte by byte: neither the model nor its tokenizer has a part in it."""
    source = LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": WHITESPACE})
    known = list(text.rstrip(HALF).encode())
    return LLMatcher(LLTokenizer("byte"), source, log_level=0).validate_tokens(known) == len(known)


@pytest.mark.parametrize(
    ("kind", "source", "whole"),
    [("regex", "[ab]{3}c", 4), ("lark", 'start: "x" ("y" | "z")', 2), ("json_schema", '{"const": 12}', 2)],
)
def test_every_kind_of_grammar(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase, kind: Any, source: str, whole: int
) -> None:
    text, is_whole = written(compiled(grammars, tokenizer, Grammar(kind, source)), tokenizer, 1)
    assert is_whole and len(text) == whole


def test_rows_may_be_asked_for_on_any_path(grammars: Grammars, tokenizer: PreTrainedTokenizerBase) -> None:
    grammar = Grammar("json_schema", json.dumps({"type": "array", "items": {"type": "integer"}}))
    texts = ["[1, 2]", "[1", "[", "[13, 4", "[1, 2, 3", ""]
    paths = [[*PROMPT, *tokenizer(text, add_special_tokens=False).input_ids] for text in texts]
    zeros, wandering = torch.zeros(len(tokenizer)), compiled(grammars, tokenizer, grammar)
    for path in paths:
        alone = compiled(grammars, tokenizer, grammar)
        assert torch.equal(wandering(zeros, path), alone(zeros, path)), path


def test_a_guess_that_the_tokenizer_does_not_have_leaves_the_grammar_as_it_was(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Models have weights for more tokens than their tokenizers; a wrong guess may be one of these."""
    grammar = Grammar("json_schema", json.dumps({"type": "array", "items": {"type": "integer"}}))
    begun = [*PROMPT, *tokenizer("[1, 2", add_special_tokens=False).input_ids]
    logits, mask = torch.zeros(len(tokenizer) + 8), compiled(grammars, tokenizer, grammar)
    expected = mask(logits, begun)
    guessed = mask(logits, [*begun, len(tokenizer) + 3, 5])
    assert torch.equal(guessed, logits), "no token after it is accepted"
    assert torch.equal(mask(logits, begun), expected)
    assert mask.constraint(len(logits))(begun, lambda: [len(tokenizer)]).forced == []


def test_a_reply_that_is_begun_goes_on_in_its_grammar(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase
) -> None:
    grammar = Grammar("json_schema", json.dumps({"type": "array", "items": {"type": "integer"}}))
    begun, other = (tokenizer(text, add_special_tokens=False).input_ids for text in ("[1, 2", "Hello"))
    allowed = compiled(grammars, tokenizer, grammar, begun)(torch.zeros(len(tokenizer)), [*PROMPT, *begun])
    is_allowed = {text: bool(allowed[tokenizer.convert_tokens_to_ids(text)] == 0) for text in ("]", "[", "3")}
    assert is_allowed == {"]": True, "[": False, "3": True}
    with pytest.raises(GrammarRefused, match="regenerate"):
        compiled(grammars, tokenizer, grammar, other)


def test_a_draft_is_told_what_is_allowed_and_what_is_forced(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase
) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "integer"}}, "required": ["name"]}
    ids = lambda text: tokenizer(text, add_special_tokens=False).input_ids  # noqa: E731
    mask = compiled(grammars, tokenizer, Grammar("json_schema", json.dumps(schema)))
    constraint, text = mask.constraint(len(tokenizer)), [*PROMPT, *ids('{"')]
    path, rest = list[int](), ids('name"')
    while found := constraint(text, lambda: path).forced:  # noqa: B023
        path += found
    assert path == rest[: len(path)] and path, "as the tokenizer cuts it"
    behind = constraint(text, lambda: [*rest, *ids(":")])
    for token in range(len(tokenizer)):
        expected = mask(torch.zeros(len(tokenizer)), [*text, *rest, *ids(":")])[token] == 0
        assert (token in behind) == bool(expected)
    assert len(tokenizer) + 8 not in behind
    assert mask.constraint(min(rest))(text, list).forced == [], "a token that the model has no weights for"


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("regex", "(a"),
        ("lark", "start: nowhere"),
        ("json_schema", '{"type": "nonsense"}'),
        ("json_schema", "{"),
    ],
)
def test_a_grammar_that_makes_no_sense_is_refused_in_one_sentence(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase, kind: Any, source: str
) -> None:
    with pytest.raises(GrammarRefused, match=r"^The .+ cannot be used \(.+\): change it, or leave it out\.$"):
        compiled(grammars, tokenizer, Grammar(kind, source))


def test_a_schema_in_a_grammar_is_refused_without_the_grammar(
    grammars: Grammars, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Tools are written as such a grammar."""
    source = 'start: "a" one\none: %json {"type": "nonsense"}'
    with pytest.raises(GrammarRefused, match=r"^The JSON schema cannot be used \([^%]+\): change it"):
        compiled(grammars, tokenizer, Grammar("lark", source))
