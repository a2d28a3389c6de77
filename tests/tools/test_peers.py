"""The comparison with transformers: what is counted, and that both are asked the same."""

from collections.abc import Sequence

import pytest

from app.commands.prompts import PromptItem, PromptSet, SamplingOverride
from app.conversation.decoder_comparison import Lane
from app.engine.session import Session
from app.messages import Decoding, ModelChoice, ModelFolder, Options, Prompt, Sampling
from tests.engine.tiny import write_tiny
from tools.peers.comparison import compare, markdown, means
from tools.peers.contestants import Contestant, Run, our_lane, transformers_lanes

CHOICE = ModelChoice("tiny", "float32", "cpu")
SHORT = Options(max_new_tokens=24, ignore_eos=True)
SETS = (
    PromptSet("one", (PromptItem("a"), PromptItem("b"))),
    PromptSet("two", (PromptItem("c", SamplingOverride(temperature=1.5)),)),
)


class Scripted:
    """Answers each prompt with a run, and remembers how it was asked."""

    def __init__(self, runs: dict[str, Run]) -> None:
        self.runs = runs
        self.asked: list[tuple[Prompt, float]] = []

    def __call__(self, prompt: Prompt, options: Options) -> Run:
        self.asked.append((prompt, options.sampling.temperature))
        return self.runs[str(prompt)]


def scripted(passes: int, seconds: float, last: int = 9) -> Scripted:
    return Scripted({prompt: Run((1, 2, last), passes, 8, seconds) for prompt in "abc"})


@pytest.fixture(scope="module")
def contestants(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Contestant]:
    folder = ModelFolder(write_tiny(tmp_path_factory.mktemp("tiny")).path, "tiny")
    session = Session(lambda _name, _progress: folder)
    loaded = session.open(CHOICE, lambda *_: None)
    lanes = [Lane(name, Decoding(name)) for name in ("plain", "prompt-lookup")]
    return [*(our_lane(lane, session, CHOICE) for lane in lanes), *transformers_lanes(loaded, folder)]


@pytest.mark.parametrize("limit", [1, 2, 24])
def test_all_write_one_text_and_count_what_is_behind_the_first_pass(
    contestants: Sequence[Contestant], limit: int
) -> None:
    options = Options(max_new_tokens=limit, ignore_eos=True)
    runs = [contestant.answer("word word word word", options) for contestant in contestants]
    assert {run.token_ids for run in runs} == {runs[0].token_ids}
    plain, _, theirs, lookup = runs
    assert (plain.passes, plain.tokens) == (theirs.passes, theirs.tokens) == (limit - 1, limit - 1)
    assert lookup.passes <= lookup.tokens <= limit - 1, "its first pass may have written several tokens"
    assert (theirs.seconds > 0) == (limit > 1)


def test_both_end_at_the_end_of_the_context(contestants: Sequence[Contestant]) -> None:
    options = Options(max_new_tokens=500, ignore_eos=True)
    runs = [contestant.answer("a" * 230, options) for contestant in contestants]
    assert len({len(run.token_ids) for run in runs}) == 1


def test_sampled_replies_are_sampled_by_all(contestants: Sequence[Contestant]) -> None:
    hot = Options(Sampling(temperature=2.0, seed=3), max_new_tokens=24, ignore_eos=True)
    for contestant in contestants:
        greedy, drawn = contestant.answer("word", SHORT), contestant.answer("word", hot)
        assert drawn.token_ids != greedy.token_ids
        assert contestant.answer("word", hot).token_ids == drawn.token_ids


def test_contestants_take_turns_and_are_asked_the_same() -> None:
    slow, fast = scripted(8, 0.8), scripted(4, 0.2)
    list(compare([Contestant("slow", slow), Contestant("fast", fast)], SETS, SHORT, rounds=2))
    assert slow.asked == fast.asked
    assert slow.asked == [("a", 0.0), *[("a", 0.0), ("b", 0.0)] * 2, *[("c", 1.5)] * 2]


def test_numbers_and_speeds_are_those_of_the_runs() -> None:
    both = [Contestant("slow", scripted(8, 0.8)), Contestant("fast", scripted(4, 0.2, last=7))]
    first, _ = found = list(compare(both, SETS, SHORT, rounds=1))
    slow, fast = first.standings
    assert (slow.tokens_per_step, fast.tokens_per_step) == (1.0, 2.0)
    assert (slow.ms_per_step, fast.ms_per_step) == (pytest.approx(100), pytest.approx(50))
    assert fast.speeds == {"slow": pytest.approx(4), "fast": 1.0}
    assert (slow.same_text, fast.same_text) == (1.0, 0.0)
    assert means(found)[1].speeds["slow"] == pytest.approx(4)


def test_replies_of_one_pass_have_no_speed() -> None:
    both = [Contestant("slow", scripted(0, 0.0)), Contestant("fast", scripted(4, 0.2))]
    [first, *_] = compare(both, SETS, SHORT, rounds=1)
    assert first.standings[1].speeds == {"slow": 0.0, "fast": 1.0}


def test_the_table_has_a_line_for_each_set_and_contestant_and_the_means() -> None:
    both = [Contestant("slow", scripted(8, 0.8)), Contestant("fast", scripted(4, 0.2))]
    lines = markdown(list(compare(both, SETS, SHORT, rounds=1)), ["slow"]).splitlines()
    assert len(lines) == 2 + 2 * 2 + 2
    assert lines[3] == "| one | fast | 2.00 | 40.0 | 50.00 | 4.00x | 100% |"
    assert lines[-1].startswith("| mean | fast | 2.00 ")
