"""The comparison with other implementations: what is counted, and that all are asked the same."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from app.commands.bench_measurement import engine_contestant
from app.commands.bench_runs import Contestant
from app.conversation.race.decoder_comparison import Lane
from app.engine.loading.loading import LoadedModel
from app.engine.session.session import Session
from app.errors import BadOption
from app.values.messages import Decoding, ModelChoice, ModelFolder, Options, Sampling
from tests.engine.tiny import write_tiny
from tests.engine.tokenizers_made import bytes_of_words
from tools.peers.contestants import SessionEngine, transformers_lanes
from tools.peers.dejavuu_lanes import dejavuu_lanes
from tools.peers.llama_cpp import llama_lanes

CHOICE = ModelChoice("tiny", "float32", "cpu")
SHORT = Options(max_new_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(write_tiny(tmp_path_factory.mktemp("tiny")).path, "tiny")


@pytest.fixture(scope="module")
def session(folder: ModelFolder) -> Session:
    return Session(lambda _name, _progress: folder)


@pytest.fixture(scope="module")
def loaded(session: Session) -> LoadedModel:
    return session.open(CHOICE, lambda *_: None)


@pytest.fixture(scope="module")
def contestants(session: Session, loaded: LoadedModel, folder: ModelFolder) -> Sequence[Contestant]:
    lanes = [Lane(name, Decoding(name)) for name in ("plain", "prompt-lookup")]
    ours = [engine_contestant(SessionEngine(session), CHOICE, lane) for lane in lanes]
    return [*ours, *transformers_lanes(loaded, folder, draft_model=folder.path)]


@pytest.mark.parametrize("limit", [1, 2, 24])
def test_all_write_one_text_and_count_what_is_behind_the_first_pass(
    contestants: Sequence[Contestant], limit: int
) -> None:
    options = Options(max_new_tokens=limit, ignore_eos=True)
    runs = [contestant.answer("word word word word", options) for contestant in contestants]
    assert {run.token_ids for run in runs} == {runs[0].token_ids}
    plain, _, theirs, *drafted = runs
    assert (plain.steps, plain.tokens) == (theirs.steps, theirs.tokens) == (limit - 1, limit - 1)
    for run in drafted:
        assert run.steps <= run.tokens <= limit - 1, "its first pass may have written several tokens"
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


def test_a_draft_model_that_is_the_model_itself_is_always_right(contestants: Sequence[Contestant]) -> None:
    plain, *_, assisted = contestants
    run = assisted.answer("word", SHORT)
    assert run.token_ids == plain.answer("word", SHORT).token_ids
    assert run.steps <= run.tokens / 2


def test_a_draft_model_with_another_tokenizer_changes_no_text(
    contestants: Sequence[Contestant], loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    tokenizer = bytes_of_words()
    other = write_tiny(tmp_path, vocabulary=len(tokenizer))
    tokenizer.save_pretrained(tmp_path)
    *_, assisted = transformers_lanes(loaded, folder, other.path)
    assert assisted.answer("word", SHORT).token_ids == contestants[0].answer("word", SHORT).token_ids


def test_a_draft_model_with_another_vocabulary_is_refused(
    loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    other = write_tiny(tmp_path, vocabulary=4000)
    with pytest.raises(BadOption, match=r"has 4,000 tokens, and the model has 4,096\. Choose a draft model"):
        transformers_lanes(loaded, folder, other.path)
    with pytest.raises(BadOption, match=r"cannot be read\. Give the folder of a model\."):
        transformers_lanes(loaded, folder, tmp_path / "nothing")


def test_llama_bench_is_asked_for_128_tokens_and_its_own_clock_counts(tmp_path: Path) -> None:
    program = tmp_path / "llama-bench"
    program.write_text(
        """#!/bin/sh\necho "$@" > "$0.asked"\necho '[{"n_gen": 120, "samples_ns": [2000000000]}]'\n"""
    )
    program.chmod(0o755)
    [lane] = llama_lanes(program, [tmp_path / "model-q8_0.gguf"], threads=2)
    run = lane.answer("word", SHORT)
    assert (lane.name, run.tokens_per_second) == ("llama.cpp model-q8_0", 60), "what it says it wrote"
    asked = (tmp_path / "llama-bench.asked").read_text()
    assert f"-m {tmp_path}/model-q8_0.gguf -p 0 -n 128 -r 1 -t 2 -o json" in asked


def test_a_llama_bench_that_fails_is_named(tmp_path: Path) -> None:
    [lane] = llama_lanes(tmp_path / "llama-bench", [tmp_path / "model.gguf"], threads=1)
    with pytest.raises(BadOption, match=r"llama-bench did not measure .*model\.gguf"):
        lane.answer("word", SHORT)


def test_a_folder_without_dejavuu_is_refused(
    loaded: LoadedModel, folder: ModelFolder, tmp_path: Path
) -> None:
    with pytest.raises(BadOption, match=r"dejavuu cannot be imported from .* \(No module named"):
        dejavuu_lanes(loaded, folder, tmp_path, ["stand"], 7)
