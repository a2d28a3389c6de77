"""Auto says what plain says: for every choice of the tuner, and whatever it learns by itself."""

from dataclasses import dataclass

import pytest

from app.engine.block.step_profile import Buckets, StepProfile, StepTimes
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.lookahead.jacobi_window import WindowSizer
from app.engine.lookahead.model_statistics import ModelStatistics, measure_first_successors, no_successors
from app.engine.lookahead.row_planner import DraftPlanner, FixedSizesPlanner, RowBudgetPlanner, Tuner
from app.engine.lookahead.step_time_curve import StepTimeCurve
from app.values.messages import Decoding, Origin, Sampling
from tests.engine.architectures import GEMMA3, LLAMA, VOCABULARY, WINDOW, Architecture
from tests.engine.oracle import Oracle, branching
from tests.engine.replies import GREEDY, Zoo, numbers, planned, reference, write
from tests.engine.sources import SOURCES, only
from tests.tiers import named, pairwise

PROMPT = numbers(WINDOW + 18)
SAMPLINGS = {
    "greedy": GREEDY,
    "top-k": Sampling(0.8, top_k=20, seed=2),
    "penalised": Sampling(1.0, repetition_penalty=1.3, seed=3),
}
TWO = {"greedy": GREEDY, "sampled": SAMPLINGS["top-k"]}
BOTH = named((LLAMA, GEMMA3))

both = pytest.mark.parametrize("architecture", (LLAMA, GEMMA3), ids=str)
both_by_sampling = pairwise(sampling=SAMPLINGS, architecture=BOTH, deep=())


@dataclass(frozen=True, slots=True)
class Machine:
    """Made-up step times, the widths that blocks are padded to, and the rows that the tuner should choose then."""

    times: StepTimes
    buckets: Buckets
    rows: range


MACHINES = {
    "plain": Machine(StepTimes((1, 2, 128), (0.001, 0.1, 9.0)), (), range(1, 2)),
    "narrow": Machine(StepTimes((1, 6, 7, 128), (0.001, 0.00101, 0.1, 1.0)), (), range(4, 7)),
    "wide": Machine(StepTimes((1, 128), (0.001, 0.001001)), (), range(20, 129)),
    "one-width": Machine(StepTimes((1, 16, 32), (0.001, 0.0011, 0.0012)), (16,), range(10, 17)),
    "padded": Machine(StepTimes((1, 4, 24, 64), (0.001, 0.0011, 0.00111, 0.1)), (4, 24, 64), range(12, 25)),
    "padded-plain": Machine(StepTimes((1, 8, 32), (0.001, 0.1, 0.2)), (1, 8, 32), range(1, 2)),
}


@pairwise(machine=MACHINES, sampling=SAMPLINGS, architecture=BOTH, columns=named((0, 3)), deep=("wide",))
def test_whatever_the_tuner_chooses_the_text_is_plains(
    zoo: Zoo, architecture: Architecture, machine: Machine, sampling: Sampling, columns: int
) -> None:
    """The oracle's guesses are all as good as sure, so that only the curve tells how many of them are fed."""
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    runner.forget()
    oracle = Oracle((*PROMPT, *expected.tokens), (branching,))
    measured = StepTimeCurve(machine.times, machine.buckets)
    proven = StepTimeCurve(machine.times, machine.buckets, measured.shape)
    planner = Tuner(proven, WindowSizer(columns))
    said = write(runner, PROMPT, planned(planner, oracle), sampling, buckets=machine.buckets)
    assert said.tokens == expected.tokens
    if not columns:
        # Near the reply's end there is less and less room for guesses.
        assert max(step.rows for step in said.steps[:4]) in machine.rows


@pairwise(machine=MACHINES, sampling=TWO, architecture=BOTH, deep=())
def test_auto_with_measured_steps_says_what_plain_says(
    zoo: Zoo, architecture: Architecture, machine: Machine, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    bucket_sets = (machine.buckets,) if machine.buckets else ()
    batch_invariant = StepTimes((*machine.buckets,), (*map(machine.times.seconds_for, machine.buckets),))
    profile = StepProfile(machine.times, batch_invariant, bucket_sets)
    expected = reference(runner, PROMPT, sampling)
    decoder = make_lookahead(Decoding(), ReplyContext(ModelStatistics(VOCABULARY), profile, sampling))
    for _ in range(2):
        runner.forget()
        said = write(runner, PROMPT, decoder, sampling, buckets=machine.buckets)
        assert (said.tokens, said.reason) == (expected.tokens, expected.reason)
        assert all(step.split.cost > 0 for step in said.steps)


@pairwise(source=named(SOURCES), rows=named((1, 2, 8, 64)), columns=named((0, 4)), architecture=BOTH, deep=())
def test_a_source_that_has_to_learn_by_itself_changes_nothing(
    zoo: Zoo, architecture: Architecture, source: Origin, columns: int, rows: int
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT)
    runner.forget()
    planners: tuple[DraftPlanner, ...] = (
        RowBudgetPlanner(rows, WindowSizer(columns)),
        FixedSizesPlanner(Decoding("lookahead", columns, 4, rows)),
    )
    for planner in planners:
        runner.forget()
        said = write(runner, PROMPT, planned(planner, only(source, VOCABULARY)))
        assert said.tokens == expected.tokens


@both_by_sampling
def test_a_document_that_holds_the_answer_is_drafted_from(
    zoo: Zoo, architecture: Architecture, sampling: Sampling
) -> None:
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT, sampling)
    known = ReplyContext(
        ModelStatistics(VOCABULARY), StepProfile(), sampling, (numbers(30, seed=9), expected.tokens)
    )
    runner.forget()
    said = write(runner, PROMPT, make_lookahead(Decoding(rows=16), known), sampling)
    assert said.tokens == expected.tokens
    assert sum(step.origins.count("document") for step in said.steps) > 20


@both_by_sampling
def test_turns_of_a_chat_that_repeat_themselves_are_drafted_from_history(
    zoo: Zoo, architecture: Architecture, sampling: Sampling
) -> None:
    """Each turn quotes the reply before it; what was said there is history, and the text is still plain's."""
    runner, chat = zoo.runner(architecture), PROMPT
    decoder = make_lookahead(Decoding(rows=24), ReplyContext(ModelStatistics(VOCABULARY), sampling=sampling))
    for turn in range(3):
        said = write(runner, chat, decoder, sampling, limit=20)
        warm = runner.reused
        assert said.tokens == reference(runner, chat, sampling, limit=20).tokens
        assert warm > 0 or turn == 0
        assert write(runner, chat, decoder, sampling, limit=20).tokens == said.tokens
        chat = (*chat, *said.tokens, *said.tokens[:5], turn)
    origins = {origin for step in said.steps for origin in step.origins}
    assert origins <= {"model", "history", "successor", "prompt", "output", "window"}


@both
@pytest.mark.parametrize("is_asked_first", (False, True), ids=("empty", "asked"))
def test_the_first_successors_change_nothing(
    zoo: Zoo, architecture: Architecture, is_asked_first: bool
) -> None:
    runner = zoo.runner(architecture)
    first = no_successors(VOCABULARY)
    if is_asked_first:
        first = measure_first_successors(runner, first, 0, lambda _done, _total: None)
    expected = reference(runner, PROMPT)
    runner.forget()
    known = ReplyContext(ModelStatistics(VOCABULARY, first=first))
    said = write(runner, PROMPT, make_lookahead(Decoding(rows=24), known))
    assert said.tokens == expected.tokens
    assert said.steps[0].is_covered == is_asked_first, "with them even the first step has something to try"


@both
def test_no_special_token_is_drafted_inside_a_run(zoo: Zoo, architecture: Architecture) -> None:
    """The text is known by heart, but one of its tokens is special: every run ends with it at the latest."""
    runner = zoo.runner(architecture)
    expected = reference(runner, PROMPT)
    special = {expected.tokens[3], expected.tokens[11]}
    known = ReplyContext(
        ModelStatistics(VOCABULARY, special=special), documents=((*PROMPT, *expected.tokens),)
    )
    runner.forget()
    said = write(runner, PROMPT, make_lookahead(Decoding(rows=16), known))
    assert said.tokens == expected.tokens
    assert said.longest_run > 2
    for step in said.steps:
        drafted = step.tokens[:-1]
        assert not special & set(drafted[:-1]), (
            "a special token may end the guesses, the model goes on itself"
        )
