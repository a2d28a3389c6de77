"""A model of which a part stays elsewhere: it writes what the whole one writes, and is refused in sentences.

Where there is no card, weights that accelerate copies from the model's files for each layer stand for those in main
memory: the hooks are the same.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from weakref import ref

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedConfig

from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.loading.draft_loading import with_draft_model
from app.engine.loading.loading import LoadedModel, load
from app.engine.loading.model_measurements import measured
from app.engine.loading.offloading import (
    check_can_offload,
    check_room,
    load_in_part,
    part_on_gpu,
    run_in_part,
)
from app.engine.lookahead.row_planner import FixedSizesPlanner
from app.engine.machine.device_options import ALONE, RankPlan, no_estimate
from app.engine.machine.process_memory import release_memory
from app.engine.measuring.measurement_cache import MeasurementCache, cache_key_of
from app.engine.measuring.step_timing import FEW_BUCKETS, profile_steps
from app.engine.runner.runner import BlockRunner
from app.engine.session.session import Session, no_progress
from app.errors import BadOption
from app.values.messages import Decoding, ModelChoice, ModelFolder, Sampling
from app.values.model import Fit
from tests.engine.architectures import BRANCHING, LLAMA, WINDOW, Architecture
from tests.engine.places import Places
from tests.engine.recurrent_architectures import ONE_OF_EACH, RECURRENT
from tests.engine.replies import GREEDY, Zoo, numbers, planned, reference, write
from tests.engine.tiny import tiny_config, with_tokenizer, write_tiny
from tests.fake_models import GB, make_fit
from tests.tiers import named, tiered

CPU = ModelChoice("tiny", "float32", "cpu", offload=True)
PROMPT = numbers(WINDOW + 18)
SAMPLINGS = {
    "greedy": GREEDY,
    "sampled": Sampling(temperature=0.7, seed=1),
    "penalised": Sampling(temperature=1.5, top_k=20, top_p=0.9, min_p=0.05, repetition_penalty=1.2, seed=4),
}
DECODINGS = {"W5-N4-G8": Decoding("lookahead", 5, 4, 8), "24-rows": Decoding("auto", rows=24)}
KINDS = (*BRANCHING, *(each for each in RECURRENT if each.name in ONE_OF_EACH))
needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card")


def in_part(folder: ModelFolder, share: float = 0.95) -> LoadedModel:
    """The model of which a share of the bytes may be in memory; the rest is read from its files in each step."""
    room = int(share * sum(file.stat().st_size for file in folder.path.glob("*.safetensors")))
    placed = {"device_map": "auto", "max_memory": {"cpu": room}, "offload_folder": folder.path / "read"}
    return load(folder, CPU, reads_heads=False, place=lambda *_: placed, choose=run_in_part)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return write_tiny(tmp_path_factory.mktemp("offloaded") / "tiny")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Architecture], LoadedModel]:
    place = tmp_path_factory.mktemp("zoo")
    known = dict[str, LoadedModel]()

    def saved(architecture: Architecture) -> LoadedModel:
        if architecture.name not in known:
            architecture.make().save_pretrained(place / architecture.name)
            known[architecture.name] = in_part(with_tokenizer(place / architecture.name))
        return known[architecture.name]

    return saved


def is_default(architecture: str, decoding: str, sampling: str) -> bool:
    """One with all decoders, three others once: windows, experts, a recurrent state."""
    if architecture == str(LLAMA):
        return (sampling == "greedy") == (decoding != "24-rows")
    is_other = architecture in ("gemma3", "mixtral", "falcon-h1")
    return is_other and (decoding, sampling) == ("24-rows", "sampled")


@tiered(is_default, architecture=named(KINDS), decoding=DECODINGS, sampling=SAMPLINGS)
def test_lookahead_writes_what_plain_and_the_whole_model_write(
    zoo: Zoo,
    saved: Callable[[Architecture], LoadedModel],
    architecture: Architecture,
    decoding: Decoding,
    sampling: Sampling,
) -> None:
    loaded = saved(architecture)
    assert loaded.info.offloaded
    expected = reference(zoo.runner(architecture), PROMPT, sampling, limit=16)
    assert reference(loaded.runner, PROMPT, sampling, limit=16).tokens == expected.tokens
    said = write(loaded.runner, PROMPT, make_lookahead(decoding), sampling, limit=16)
    assert said.tokens == expected.tokens


def test_it_is_described_and_goes_when_it_is_unloaded(folder: ModelFolder) -> None:
    loaded, whole = in_part(folder), load(folder, CPU, reads_heads=False)
    assert (loaded.info.device, loaded.info.parameters) == ("cpu", whole.info.parameters)
    assert 0 < loaded.info.offloaded < 4 * loaded.info.parameters
    assert loaded.info.note("fused") == "Layers keep torch's kernels: part of the model is in main memory."
    assert not loaded.info.fused and not loaded.info.graphs and not whole.info.offloaded
    assert isinstance(loaded.runner, BlockRunner) and isinstance(whole.runner, BlockRunner)
    notes = [cache_key_of(one.runner.model, one.info) for one in (loaded, whole)]  # type: ignore[attr-defined]
    assert notes[0]["offloaded"] and "offloaded" not in notes[1], (
        "what was measured of one is not the other's"
    )
    write(loaded.runner, PROMPT, make_lookahead(Decoding()))
    weights = [ref(loaded.runner.model), *map(ref, loaded.runner.model.parameters())]
    del loaded
    release_memory()
    assert not any(weight() for weight in weights)


def test_it_is_measured_as_any_other_and_a_draft_model_is_whole(folder: ModelFolder) -> None:
    target = in_part(folder)
    choice = replace(CPU, draft_model="twin")
    drafted = measured(
        with_draft_model(target, replace(folder, name="twin"), choice), MeasurementCache(None), no_progress
    )
    assert drafted.profile.is_whole and drafted.info.draft_model == "twin"
    expected = reference(target.runner, PROMPT)
    planner = FixedSizesPlanner(Decoding("lookahead", window=0, ngram=6, guesses=3))
    said = write(target.runner, PROMPT, planned(planner, drafted.statistics.pool(PROMPT, GREEDY, ())))
    assert said.tokens == expected.tokens
    assert len(said.steps) < len(expected.steps) / 2, "the twin is always right"


def test_a_slow_step_is_timed_few_times(folder: ModelFolder) -> None:
    loaded = in_part(folder)
    assert isinstance(loaded.runner, BlockRunner)
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    loaded.runner.model.register_forward_pre_hook(count)
    profile = profile_steps(loaded.runner, lambda _done, _total: None, clock=lambda: 2.0 * passes)
    assert profile.free.buckets == FEW_BUCKETS
    assert passes <= 25


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (ALONE, r"the whole model is in main memory anyway: leave --offload out\.$"),
        (RankPlan(("cpu", "cpu")), r"--offload is for one GPU: use one device\.$"),
    ],
)
def test_it_is_for_one_card(folder: ModelFolder, plan: RankPlan, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        check_can_offload(folder, CPU, plan)


def test_the_card_is_filled_and_no_other_one() -> None:
    placed = part_on_gpu(5 * GB)(PreTrainedConfig(), torch.device("cuda", 1))
    assert placed["device_map"] == "auto" and placed["max_memory"][1] == 5 * GB
    assert set(placed["max_memory"]) == {1, "cpu"}


def says(fit: Fit | None) -> Callable[..., Fit | None]:
    return lambda *_, **_named: fit


def test_what_fits_is_loaded_whole(folder: ModelFolder) -> None:
    loaded = load_in_part(folder, (), CPU, None, says(make_fit("fits")), no_progress)
    assert loaded.info.offloaded == 0 and loaded.info.note("device") == ""


def test_what_nobody_can_estimate_is_refused(folder: ModelFolder) -> None:
    with pytest.raises(BadOption, match="The memory for tiny cannot be estimated here"):
        load_in_part(folder, (), CPU, None, no_estimate, no_progress)


def test_a_card_or_a_main_memory_that_is_too_small_is_told(folder: ModelFolder) -> None:
    big = make_fit("too big", 60 * GB)
    with pytest.raises(BadOption, match="tiny is too large for cpu even with part of it in main memory"):
        check_room(folder, big, 8 * GB)
    with pytest.raises(
        BadOption, match=r"50 GB of tiny would stay in main memory, of which 8\.00 GB are free"
    ):
        check_room(folder, replace(big, offloaded=50 * GB), 8 * GB)
    check_room(folder, replace(big, offloaded=5 * GB), 8 * GB)


def test_a_model_of_which_not_even_the_embedding_fits_is_refused(folder: ModelFolder) -> None:
    with pytest.raises(BadOption, match="no room even for this model's embedding"):
        in_part(folder, share=0.01)


@needs_card
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_card_that_holds_half_of_the_layers_writes_what_one_with_all_writes(
    tmp_path: Path, sampling: Sampling
) -> None:
    layers = 6
    config = tiny_config()
    config.num_hidden_layers = layers
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    model.save_pretrained(tmp_path / "deep")
    embedding, layer = (
        sum(weight.nbytes for weight in part.parameters())
        for part in (model.model.embed_tokens, model.model.layers[0])
    )
    # accelerate leaves room for the largest piece beside what stays on the card.
    fit = replace(make_fit("too big"), room=2 * embedding + layers // 2 * layer, offloaded=1)
    places = Places({"deep": with_tokenizer(tmp_path / "deep").path})
    choice = ModelChoice("deep", "float32", "cuda", attention="sdpa", offload=True)
    part = Session(places, estimate=says(fit)).open(choice, no_progress)
    whole = Session(places).open(replace(choice, offload=False), no_progress)
    assert part.info.device == whole.info.device and part.info.device.startswith("cuda")
    assert part.info.offloaded >= layers // 2 * layer
    expected = reference(whole.runner, PROMPT, sampling)
    assert reference(part.runner, PROMPT, sampling).tokens == expected.tokens
    for decoding in DECODINGS.values():
        part.runner.forget()
        assert write(part.runner, PROMPT, make_lookahead(decoding), sampling).tokens == expected.tokens
