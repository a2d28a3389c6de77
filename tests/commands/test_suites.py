"""The benchmarks of the field, read as they are published."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from app.commands.bench_measurement import BenchPlan, engine_contestant, measure
from app.commands.bench_runs import RunLog
from app.commands.prompts import PromptItem, PromptSet
from app.commands.suites import Suite, read_suite
from app.conversation.race.decoder_comparison import Lane
from app.errors import BadOption
from app.values.messages import Decoding, Message, ModelChoice, Options
from tests.commands.scripted import ScriptedDecoders


def lines(*questions: Any) -> str:
    return "".join(json.dumps(question) + "\n" for question in questions)


def write(folder: Path, place: str, text: str) -> None:
    file = folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)


def asked(sets: list[PromptSet]) -> dict[str, list[str]]:
    """The first questions by category."""
    return {one.name: [item.prompt[0].content for item in one.prompts if item.prompt] for one in sets}  # type: ignore[union-attr]


def test_spec_bench_has_six_categories_of_which_mt_bench_is_one(tmp_path: Path) -> None:
    questions = [
        {"category": category, "turns": [f"About {category}"]}
        for category in (
            "writing",
            "coding",
            "translation",
            "summarization",
            "qa",
            "math_reasoning",
            "rag",
            "qa",
        )
    ]
    write(tmp_path, "spec-bench/question.jsonl", lines(*questions))
    sets = read_suite("spec-bench", tmp_path, None)
    assert [one.name for one in sets] == [
        "mt-bench",
        "translation",
        "summarization",
        "qa",
        "math_reasoning",
        "rag",
    ]
    assert asked(sets)["mt-bench"] == ["About writing", "About coding"]
    assert asked(read_suite("spec-bench", tmp_path, 1))["qa"] == ["About qa"]


@pytest.mark.parametrize(
    ("suite", "place", "question", "category", "text"),
    [
        ("mt-bench", "mt-bench/question.jsonl", {"category": "stem", "turns": ["Why?"]}, "stem", "Why?"),
        ("gsm8k", "gsm8k/test.jsonl", {"question": "How many?", "answer": "4"}, "gsm8k", "How many?"),
        (
            "humaneval",
            "human-eval/HumanEval.jsonl.gz",
            {"task_id": "HumanEval/0", "prompt": "def f():"},
            "humaneval",
            "Complete this Python function:\n\ndef f():",
        ),
    ],
)
def test_each_suite_is_read_as_it_is_published(
    tmp_path: Path, suite: Suite, place: str, question: Any, category: str, text: str
) -> None:
    write(tmp_path, place, lines(question))
    assert asked(read_suite(suite, tmp_path, None)) == {category: [text]}


def test_a_second_turn_follows_the_reply_to_the_first() -> None:
    item = PromptItem((Message("user", "One"),), later_turns=("Two",))
    second = item.next_turn("Reply")
    assert second == PromptItem(
        (Message("user", "One"), Message("assistant", "Reply"), Message("user", "Two"))
    )
    assert second and second.next_turn("More") is None


def test_every_turn_is_measured_with_every_decoder() -> None:
    engine = ScriptedDecoders()
    items = (
        PromptItem((Message("user", "One"),), later_turns=("Two",)),
        PromptItem((Message("user", "Three"),)),
    )
    lanes = [Lane("plain", Decoding("plain")), Lane("lookahead", Decoding("lookahead"))]
    contestants = [engine_contestant(engine, ModelChoice("demo"), lane) for lane in lanes]
    plan = BenchPlan((PromptSet("chat", items),), contestants, Options(max_new_tokens=100), 1)
    [only] = measure(plan, RunLog())
    prompts = [request.prompt for request in engine.requests[2:]]
    assert [len(prompt) for prompt in prompts] == [1, 1, 3, 3, 1, 1]
    assert only.results[1].identical


@pytest.mark.parametrize(
    ("folder", "limit", "sentence"),
    [
        (None, None, "--suite gsm8k needs --suite-data FOLDER, a folder with gsm8k/test.jsonl."),
        ("empty", None, "has no gsm8k/test.jsonl. Download the questions there first."),
        ("broken", None, "line 2 is not a question of this suite."),
        ("nothing", None, "has no questions."),
        ("broken", 0, "--limit takes a number from 1 on, got 0."),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(
    tmp_path: Path, folder: str | None, limit: int | None, sentence: str
) -> None:
    write(tmp_path, "broken/gsm8k/test.jsonl", lines({"question": "How many?"}, {"answer": "4"}))
    write(tmp_path, "nothing/gsm8k/test.jsonl", "\n")
    with pytest.raises(BadOption) as refused:
        read_suite("gsm8k", tmp_path / folder if folder else None, limit)
    assert sentence in str(refused.value)
