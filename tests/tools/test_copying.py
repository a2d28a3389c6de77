"""The demo model's copying tasks, the rows that they are learned from, and the facts that are held out."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pytest

from app.conversation.retrieval import question_with_sources
from app.values.messages import Message
from tools.demo_model import copying, held_out_facts, made_up_text
from tools.demo_model.copying import CopyingTasks
from tools.demo_model.real_sentences import docstrings

BOOK = ["The white rabbit carried a golden watch.", "Dorothy walked along the yellow road."]


def made(seed: int) -> CopyingTasks:
    words = Counter(re.findall("[a-z]+", " ".join(BOOK).lower()))
    return CopyingTasks([BOOK], words, random.Random(seed))


def test_an_answer_is_a_sentence_of_the_source_that_it_cites() -> None:
    tasks, answers = made(1), 0
    for _ in range(60):
        sources = tasks.sources(400)
        for lookup in tasks.lookups(sources):
            if not lookup.answer.startswith("The sources do not mention"):
                sentence, number = lookup.answer[:-4], int(lookup.answer[-2])
                assert sentence in sources.texts[number - 1]
                answers += 1
    assert answers > 100


def test_what_is_not_mentioned_stands_in_no_source() -> None:
    tasks, missing = made(2), 0
    for _ in range(60):
        sources = tasks.sources(400)
        for lookup in tasks.lookups(sources):
            if found := re.fullmatch(r"The sources do not mention (.+)\.", lookup.answer):
                assert found[1] not in " ".join(sources.texts) and found[1] in lookup.question
                missing += 1
    assert missing


def test_the_prompt_is_the_apps_prompt() -> None:
    sources = made(3).sources(400)
    assert f"{sources.prompt()} Where?" == question_with_sources(sources.texts, "Where?")


def test_a_question_names_what_it_asks_for() -> None:
    tasks, questions = made(13), list[str]()
    for _ in range(60):
        for lookup in tasks.lookups(tasks.sources(400)):
            assert lookup.asked.lower() in lookup.question.lower(), lookup
            questions.append(lookup.question)
    assert len(set(questions)) > 0.9 * len(questions) > 100


def test_a_real_sentences_form_makes_others_like_it() -> None:
    make = made(14).make
    filled = [make.filled(make.form_of(BOOK[0])) for _ in range(20)]
    assert len(set(filled)) == 20
    for one in filled:
        same = [a == b for a, b in zip(one.split(), BOOK[0].split(), strict=True)]
        assert 1 <= same.count(False) <= 3


def test_the_same_seed_makes_the_same_tasks() -> None:
    def drawn(seed: int) -> list[object]:
        tasks = made(seed)
        sources = tasks.sources(300)
        return [sources, tasks.system(), *tasks.lookups(sources)]

    assert drawn(4) == drawn(4) != drawn(5)


def test_held_out_forms_and_questions_are_not_those_of_the_training() -> None:
    trained = {*copying.FORMS, *made_up_text.SUBJECTS, *made_up_text.PREDICATES}
    held_out = {*held_out_facts.FORMS, *held_out_facts.WHATEVER_IT_SAYS}
    assert not trained & held_out
    sentences = " ".join(held_out_facts.FORMS).lower()
    assert not [thing for thing in made_up_text.THINGS if re.search(rf"\b{thing}\b", sentences)]


def test_a_held_out_question_names_a_word_of_its_sentence_alone() -> None:
    facts = list(islice(held_out_facts.held_out_facts(random.Random(6)), 200))
    words = Counter(word for fact in facts for word in set(re.findall(r"\w+", fact.sentence)))
    for fact in facts:
        asked = set(re.findall(r"\w+", fact.question)) & set(re.findall(r"\w+", fact.sentence))
        assert [word for word in asked if words[word] == 1], fact


def test_docstrings_are_cut_into_plain_sentences(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        '"""Return the sum of two given numbers. Short.\n\n    >>> add(1, 2)\n"""\n'
    )
    (tmp_path / "test_two.py").write_text('"""This is a test, and no documentation at all."""\n')
    assert list(docstrings(tmp_path)) == [["Return the sum of two given numbers."]]


@dataclass
class Letters:
    """An encoding with one token for each character."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def letters(text: str) -> Letters:
    return Letters([3 + ord(one) % 90 for one in text], [(at, at + 1) for at in range(len(text))])


def small_llama() -> Any:
    """Two layers with the same random weights at each call."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    make: Callable[..., LlamaConfig] = LlamaConfig
    small = make(
        vocab_size=100, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    return LlamaForCausalLM(small).eval()


def test_a_branch_reads_as_if_it_were_alone_behind_its_sources() -> None:
    torch = pytest.importorskip("torch")

    from tools.demo_model.branched_rows import TRUNK, batch_of, copying_row

    model = small_llama()
    row = copying_row(made(7), letters, 2000, 300)
    batch = batch_of([row])
    with torch.no_grad():
        together = model(batch.ids, attention_mask=batch.mask, position_ids=batch.positions).logits[0]
    assert max(row.branches) > 1
    for branch in range(1, max(row.branches) + 1):
        places = [place for place, one in enumerate(row.branches) if one in (TRUNK, branch)]
        with torch.no_grad():
            alone = model(batch.ids[:, places]).logits[0]
        torch.testing.assert_close(together[places], alone, rtol=1e-4, atol=1e-4)


def test_the_loss_is_of_the_answers_alone() -> None:
    pytest.importorskip("torch")
    from tools.demo_model.branched_rows import batch_of, copying_row

    row = copying_row(made(8), letters, 2000, 300)
    batch = batch_of([row])
    learned = batch.targets[batch.weights > 0].tolist()
    assert learned == [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]
    assert 0 < len(learned) < sum(branch > 0 for branch in row.branches)


def test_an_asked_word_knows_its_source_and_how_its_answer_begins() -> None:
    pytest.importorskip("torch")
    from tools.demo_model.branched_rows import copying_row

    row = copying_row(made(9), letters, 2000, 300)
    assert row.hops
    for hop in row.hops:
        assert row.ids[hop.end + 1] == row.firsts[hop.asked]
        assert row.numbers[hop.found] == row.numbers[hop.asked] > 0
        assert row.firsts[hop.found] == row.firsts[hop.asked]


def test_each_token_of_an_answers_sentence_has_its_place_in_the_sources() -> None:
    pytest.importorskip("torch")
    from tools.demo_model.branched_rows import TRUNK, UNKNOWN, copying_row

    row = copying_row(made(12), letters, 2000, 300)
    copied = [(place, source) for place, source in enumerate(row.copied) if source != UNKNOWN]
    assert len(copied) > 30
    for place, source in copied:
        assert row.ids[place + 1] == row.ids[source] and row.branches[source] == TRUNK


def test_in_other_conversations_the_model_learns_from_its_teacher_alone() -> None:
    torch = pytest.importorskip("torch")
    from tools.demo_model.branched_rows import batch_of, chat_row, copying_row
    from tools.demo_model.copy_training import CopyTraining, Stage, StepTasks

    copying = batch_of([copying_row(made(11), letters, 1200, 300)])
    chats = batch_of([chat_row(repeat([Message("user", "Hi"), Message("assistant", "Hello")]), letters, 60)])
    training, last = CopyTraining(small_llama(), small_llama(), compiled=False), Stage(1.0, 1200, (300, 300))
    first_loss, difference = training.learn(StepTasks(copying, chats), last, 0.5)
    assert first_loss > 0 and difference == pytest.approx(0, abs=1e-3)
    losses = [training.learn(StepTasks(copying, chats), last, 0.5) for _ in range(8)]
    assert losses[-1][0] < first_loss and 0 < losses[-1][1] < 1
    assert torch.isfinite(torch.tensor(losses)).all()


def test_the_probes_teach_the_layers_below_them() -> None:
    torch = pytest.importorskip("torch")
    from tools.demo_model.branched_rows import batch_of, copying_row
    from tools.demo_model.deep_supervision import QUESTION_DEPTH, SOURCE_DEPTH, Probes

    batch = batch_of([copying_row(made(10), letters, 2000, 300)])
    layers = tuple(torch.randn(1, 2000, 16, requires_grad=True) for _ in range(9))
    Probes(16)(layers, batch, torch.randn(100, 16)).backward()
    taught = [depth for depth, layer in enumerate(layers) if layer.grad is not None and layer.grad.any()]
    assert taught == [SOURCE_DEPTH, QUESTION_DEPTH]
