"""A draft model with another tokenizer: what it writes is proposed in the target's tokens, once it is settled."""

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from app.engine.block.entries import LEADS
from app.engine.drafters.continuation import LONGEST_WORD, Translation
from app.engine.drafters.draft_model import Proposal
from app.engine.drafters.model_drafter import DraftModelSource
from app.engine.drafters.retokenising_draft_model import RetokenisingDraftModel
from app.engine.lookahead.draft_model_budget import DraftModelBudget
from app.engine.text.text_tokenizer import LONGEST_CHARACTER, TextTokenizer
from app.values.messages import Sampling
from tests.engine.drafters.test_model_drafter import DEPTH, FLOOR, ROWS, SOURCES, ScriptedPool, wrong
from tests.engine.text.test_text_tokenizer import KEEPING
from tests.engine.tokenizers_made import TEXT

DEMO, BYTES, SPACED = map(TextTokenizer, KEEPING.values())
PAIRS = {
    "to finer": (BYTES, DEMO),
    "to coarser": (DEMO, BYTES),
    "to bytes": (BYTES, SPACED),
    "spaced": (SPACED, DEMO),
}
"""(draft model's, target's)"""
GREEDY = Sampling()


class KnowingReader:
    """Goes on with one text as its tokenizer would, and names a second token. `reads` counts what is fed."""

    context, vocabulary = 2_000, 4096

    def __init__(self, tokenizer: TextTokenizer, text: str, end: int | None = None) -> None:
        self._tokenizer, self._text, self._end = tokenizer, text, end
        self.fed: list[int] = []
        self.reads = 0

    def read(self, line: Sequence[int], known: int) -> Tensor:
        assert known < len(line)
        assert self.fed[:known] == list(line[:known]), "what it is said to know"
        self.fed, self.reads = list(line), self.reads + len(line) - known
        said = self._tokenizer.decode(line)
        logits = torch.linspace(0.1, 0.0, self.vocabulary)
        if self._text.startswith(said):
            rest = self._text[len(said) :]
            following = self._tokenizer.following if said else self._tokenizer.first
            logits[following(rest)[0] if rest else self._end or 0] = 9.0
        return logits

    def forget(self) -> None:
        self.fed = []


def model_of(
    pair: tuple[TextTokenizer, TextTokenizer], text: str, end: int | None = None
) -> tuple[RetokenisingDraftModel, KnowingReader]:
    reader = KnowingReader(pair[0], text, end)
    return RetokenisingDraftModel(reader, "draft", Translation(*pair, vocabulary=4096)), reader


def expected(found: list[Proposal]) -> int:
    assert found[0][1] >= LEADS > max((gap for _, gap in found[1:]), default=0)
    return found[0][0]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_it_writes_comes_in_the_targets_tokens(pair: tuple[TextTokenizer, TextTokenizer]) -> None:
    model, _ = model_of(pair, TEXT)
    tokens = pair[1].first(TEXT)
    right, places = 0, range(1, min(60, len(tokens)))
    for place in places:
        model.follow(tokens[:place])
        found = model.propose((), GREEDY)
        right += bool(found) and expected(found) == tokens[place]
    assert right >= len(places) - 5, "but for a few tokens that a text in two parts has not"


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_line_of_guesses_is_written_in_one_go(pair: tuple[TextTokenizer, TextTokenizer]) -> None:
    text = "Once upon a time there was a fox in a wood"
    model, reader = model_of(pair, text)
    tokens = pair[1].first(text)
    model.follow(tokens[:2])
    guesses = list[int]()
    while found := model.propose(guesses, GREEDY):
        guesses.append(expected(found))
    rest = tokens[2:]
    assert len(rest) > 8
    assert guesses[: len(rest)] == rest
    assert reader.reads <= len(pair[0].first(text)) + 2, "nothing is read twice"


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_whatever_was_asked_before_the_answer_is_that_of_a_fresh_model(
    pair: tuple[TextTokenizer, TextTokenizer],
) -> None:
    generator = random.Random(4)
    warm, _ = model_of(pair, TEXT)
    tokens = pair[1].first(TEXT)
    for _ in range(12):
        place = generator.randrange(1, 40)
        said = [
            *tokens[:place],
            *(generator.randrange(3, 360) for _ in range(generator.choice((0, 0, 1, 3)))),
        ]
        guesses = [*tokens[len(said) : len(said) + 3], 5][: generator.randrange(4)]
        warm.follow(said)
        fresh, _ = model_of(pair, TEXT)
        fresh.follow(said)
        assert warm.propose(guesses, GREEDY)[:1] == fresh.propose(guesses, GREEDY)[:1]


def test_what_was_written_stays_good_while_the_text_goes_that_way() -> None:
    model, reader = model_of(PAIRS["to finer"], TEXT)
    tokens = DEMO.first(TEXT)
    model.follow(tokens[:4])
    for end in range(9):
        model.propose(tokens[4 : 4 + end], GREEDY)
    before = reader.reads
    assert model.follow(tokens[:8]) == 4
    assert expected(model.propose((), GREEDY)) == tokens[8]
    assert reader.reads == before


def test_a_word_that_is_not_over_is_not_proposed_and_one_without_end_is_but_for_its_last_token() -> None:
    model, _ = model_of(PAIRS["to finer"], "A fox")
    model.follow(DEMO.first("A"))
    assert expected(model.propose((), GREEDY)) == DEMO.first(" fox")[0], "a control token ends it"
    long = "A " + "ab" * 40
    model, reader = model_of(PAIRS["to finer"], long)
    model.follow(DEMO.first("A"))
    assert model.propose((), GREEDY)
    assert reader.reads <= LONGEST_WORD + 2


def test_the_end_of_a_reply_is_proposed_and_nothing_behind_it() -> None:
    end = next(number for number, name in BYTES.controls.items() if name == "<|im_end|>")
    model, _ = model_of(PAIRS["to finer"], "A fox.", end)
    model.follow(DEMO.first("A fox"))
    (stop,) = DEMO.first(".")
    assert expected(model.propose((), GREEDY)) == stop
    last = expected(model.propose([stop], GREEDY))
    assert DEMO.controls[last] == "<|im_end|>"
    assert model.propose([stop, last], GREEDY) == []


@pytest.mark.parametrize("spoil", ["half", "long", "unknown"])
def test_where_it_cannot_tell_it_says_nothing(spoil: str) -> None:
    model, reader = model_of(PAIRS["to finer"], TEXT)
    if spoil == "long":
        reader.context = 4
    if spoil == "unknown":
        reader.vocabulary = 5
    half = DEMO.first("\U0001f642")[:1]
    model.follow([*DEMO.first("Once upon a time there was"), *(half if spoil == "half" else ())])
    assert model.propose((), GREEDY) == []


def test_one_that_writes_half_characters_for_ever_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, reader = model_of(PAIRS["to finer"], TEXT)
    half = BYTES.first("\U0001f642")[0]
    monkeypatch.setattr(reader, "read", halves := Halves(half))
    model.follow(DEMO.first("Once upon"))
    assert model.propose((), GREEDY) == []
    assert halves.reads == LONGEST_CHARACTER


class Halves:
    """Expects the same token behind everything."""

    def __init__(self, token: int) -> None:
        self._token, self.reads = token, 0

    def __call__(self, line: Sequence[int], known: int) -> Tensor:
        assert known < len(line)
        self.reads += 1
        return torch.zeros(KnowingReader.vocabulary).index_fill(0, torch.tensor(self._token), 9.0)


def test_words_that_are_nothing_to_the_target_are_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = TextTokenizer(KEEPING["demo"])
    model, _ = model_of((BYTES, deaf), TEXT)
    monkeypatch.setattr(deaf, "following", lambda _text: [])
    model.follow(deaf.first("Once upon"))
    assert model.propose((), GREEDY) == []


def test_a_token_that_the_target_has_no_weights_for_is_not_proposed() -> None:
    reader = KnowingReader(BYTES, TEXT)
    model = RetokenisingDraftModel(reader, "draft", Translation(BYTES, DEMO, vocabulary=100))
    model.follow(DEMO.first("Once"))
    assert model.propose((), GREEDY) == []


def steps_of(make_draft: Callable[[], DraftModelSource] | None, tokens: list[int]) -> int:
    """Steps that write these tokens, with a pool that is wrong and a tree of equally many rows each."""
    make = partial(ScriptedPool, 0.3, wrong)
    drafter = make_draft().drafters(make)(SOURCES) if make_draft else make(SOURCES)
    text, steps = tokens[:4], 0
    while len(text) < len(tokens):
        tree = drafter.draft(text, ROWS, DEPTH, FLOOR)
        node, steps = 0, steps + 1
        while len(text) < len(tokens) and (below := tree.child(node, tokens[len(text)])) is not None:
            text, node = [*text, tokens[len(text)]], below
        text = tokens[: len(text) + 1]
    return steps


def test_one_that_knows_the_text_writes_what_the_pool_cannot() -> None:
    tokens = DEMO.first(TEXT * 3)

    def knowing() -> DraftModelSource:
        return DraftModelSource(model_of(PAIRS["to finer"], TEXT * 3)[0], DraftModelBudget(1.0, 1.0))

    assert steps_of(knowing, tokens) < 0.4 * steps_of(None, tokens)
