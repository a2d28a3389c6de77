"""A quantised model is nearly the model, takes the memory that was foretold, and keeps the promise of text."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MixtralConfig,
    PreTrainedModel,
)

from app.engine.decoders.lookahead_decoder import make_lookahead
from app.engine.decoders.plain import plain
from app.engine.layers import quantisation
from app.engine.layers.quantisation import (
    ANYWHERE,
    TRIED_ROWS,
    FindKernel,
    FoundKernel,
    _TriedKernels,
    check_can_quantise,
    fault_of,
    find_kernel,
    quantise,
    quantised,
    settled,
)
from app.engine.layers.quantised_layers import (
    CpuInt8Linear,
    QuantisedEmbedding,
    QuantisedLinear,
    TiledInt8Linear,
)
from app.engine.loading.loading import load
from app.engine.machine.compiling import Compiled
from app.engine.machine.kernel_timing import Run
from app.engine.runner.runner import BlockRunner
from app.engine.text.prompt import encode
from app.errors import BadOption
from app.values.messages import Decoding, ModelChoice, ModelFolder, Sampling
from app.values.quantisation_sizes import Quantisation, model_bytes
from tests.engine.architectures import BRANCHING, Architecture
from tests.engine.oracle import Oracle, branching, half_right, right
from tests.engine.recurrent_architectures import RECURRENT, TREES
from tests.engine.replies import GREEDY, numbers, says_plainly, with_pool, write
from tests.engine.replies import load as load_made
from tests.engine.tiny import DEMO, STORIES
from tests.tiers import covering, named, tiered

CPU = torch.device("cpu")
SAMPLED = Sampling(temperature=0.8, top_p=0.95, seed=3)
QUESTIONS = ("Hello, who are you?", "How do I list the files of a folder?")
KINDS: tuple[Quantisation, ...] = ("int8", "int4")

HYBRIDS = ("qwen3.5", "falcon-h1", "lfm2", "nemotron-h")
BY_DEFAULT = covering([("llama", "gemma2", "gpt2", "deepseek-v3", *HYBRIDS), KINDS], deep=())

both_kinds = pytest.mark.parametrize("quantisation", KINDS)


LAYERS = {"hidden_size": 512, "num_hidden_layers": 4, "vocab_size": 50_000, "num_attention_heads": 8}
SIZED: dict[str, tuple[Any, dict[str, Any]]] = {
    "dense": (LlamaConfig, {**LAYERS, "intermediate_size": 2048}),
    "small": (LlamaConfig, {**LAYERS, "intermediate_size": 64, "vocab_size": 500}),
    "experts": (MixtralConfig, {**LAYERS, "intermediate_size": 4096, "num_local_experts": 8}),
    "recurrent": (MambaConfig, {"hidden_size": 1024, "num_hidden_layers": 8}),
}


def automatic_of(name: str, choice: ModelChoice, device: str = "cpu") -> tuple[str, str]:
    kind, sizes = SIZED[name]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(kind(**sizes))
    return settled(choice, model, torch.device(device))


def test_automatic_is_int8_where_it_is_fastest_and_tells_why_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quantisation, "multiplies_int8_fast", lambda: True)
    monkeypatch.setattr(quantisation, "compiled_kernels", lambda: Compiled(object()))
    automatic = ModelChoice("x")
    assert automatic_of("dense", automatic) == ("int8", "")
    reasons = {"small": "so small", "experts": "stacked experts", "recurrent": "recurrent layers"}
    for name, words in reasons.items():
        found, reason = automatic_of(name, automatic)
        assert found == "none" and words in reason
    assert automatic_of("dense", automatic, "cuda") == ("none", "")
    for dtype in ("float32", "bfloat16"):
        assert automatic_of("dense", replace(automatic, dtype=dtype)) == ("none", "")
    for kind in ("none", *KINDS):
        assert automatic_of("recurrent", replace(automatic, quantisation=kind)) == (kind, "")
    monkeypatch.setattr(quantisation, "multiplies_int8_fast", lambda: False)
    assert automatic_of("dense", automatic) == ("none", "")
    monkeypatch.setattr(quantisation, "compiled_kernels", lambda: Compiled(None, "Install a C compiler."))
    assert automatic_of("dense", automatic) == ("none", "Install a C compiler.")
    assert automatic_of("dense", automatic, "cuda") == ("none", "")


def make_model(dtype: torch.dtype = torch.float32, **settings: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=172,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        **settings,
    )
    return LlamaForCausalLM(config).to(dtype).requires_grad_(False).train(False)


def bits(model: PreTrainedModel) -> dict[str, int]:
    return {name: layer.bits for name, layer in model.named_modules() if isinstance(layer, QuantisedLinear)}


@pytest.mark.parametrize(("size", "error"), [(8, 0.01), (4, 0.1)])
@pytest.mark.parametrize("spread", [1e-5, 0.02, 30.0])
def test_numbers_are_near_the_weight_however_small_it_is(size: int, error: float, spread: float) -> None:
    weight = torch.randn((64, 256), generator=torch.Generator().manual_seed(0)).mul(spread).bfloat16()
    found = quantised(weight, size, CPU)
    assert found.values.dtype == torch.int8
    assert (found.dense() - weight.float()).norm() / weight.float().norm() < error


def test_slices_of_a_weight_make_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn((50, 64), generator=torch.Generator().manual_seed(0))
    whole = quantised(weight, 4, CPU)
    monkeypatch.setattr("app.engine.layers.quantisation.SLICE", 7 * 64)
    sliced = quantised(weight, 4, CPU)
    assert torch.equal(whole.values, sliced.values)
    assert torch.equal(whole.scale, sliced.scale)


def test_linears_take_four_bits_but_the_head_and_rows_that_do_not_divide() -> None:
    model = make_model()
    total = model.num_parameters()
    count = quantise(model, "int4", CPU)
    found = bits(model)
    assert {bit for name, bit in found.items() if "down_proj" in name or name == "lm_head"} == {8}
    assert {bit for name, bit in found.items() if "down_proj" not in name and name != "lm_head"} == {4}
    assert len(found) == 2 * 7 + 1
    assert total - count == sum(parameter.numel() for parameter in model.parameters()) == 5 * 64  # norms


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_tied_head_shares_the_embeddings_numbers(dtype: torch.dtype) -> None:
    model = make_model(tie_word_embeddings=True).to(dtype)
    ids, embedding = torch.arange(160)[None], model.get_input_embeddings()
    expected = embedding(ids)
    quantise(model, "int8", CPU)
    table = model.get_input_embeddings()
    assert isinstance(table, QuantisedEmbedding)
    assert any(buffer is table.values for buffer in model.lm_head.buffers())
    assert (table(ids) - expected).abs().max() <= expected.abs().max() / 100


def test_none_leaves_the_model_alone() -> None:
    model = make_model()
    assert quantise(model, "none", CPU) == 0
    assert bits(model) == {}


def with_biases() -> PreTrainedModel:
    model = make_model(attention_bias=True)
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            layer.bias.data.normal_()
    return model


def test_biases_that_are_moved_to_another_device_are_not_counted_as_quantised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quantisation, "stands_for", lambda *_: False)  # values on "meta" cannot be compared
    model = with_biases()
    weights = sum(one.weight.numel() for one in model.modules() if isinstance(one, nn.Linear))
    found = quantise(model, "int8", torch.device("meta"), lambda bits, *_: FoundKernel(ANYWHERE[bits]))
    assert found == weights


def with_a_scaled_embedding() -> PreTrainedModel:
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
    )  # fmt: skip
    return Gemma2ForCausalLM(config).requires_grad_(False).train(False)


@pytest.mark.parametrize("make", [with_biases, with_a_scaled_embedding])
def test_biases_are_kept_and_an_embedding_is_quantised_with_its_scale(
    make: Callable[[], PreTrainedModel],
) -> None:
    model, ids = make(), torch.arange(5, 45)[None]
    before = model(ids).logits
    quantise(model, "int8", CPU)
    assert isinstance(model.get_input_embeddings(), QuantisedEmbedding)
    assert (model(ids).logits - before).norm() / before.norm() < 0.05


@both_kinds
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
def test_the_quantised_model_says_nearly_what_the_model_says(
    quantisation: Quantisation, dtype: torch.dtype
) -> None:
    model, ids = make_model(dtype), torch.arange(5, 45)[None]
    before = model(ids).logits.float()
    quantise(model, quantisation, CPU)
    after = model(ids).logits
    assert after.dtype == dtype
    assert (after.float() - before).norm() / before.norm() < {"int8": 0.05, "int4": 0.25}[quantisation]


@both_kinds
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_a_loaded_model_takes_the_bytes_that_were_foretold(quantisation: Quantisation, dtype: Any) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in read_demo().items()}
    loaded = load(ModelFolder(DEMO, "demo"), ModelChoice("demo", dtype, "cpu", quantisation))
    assert isinstance(loaded.runner, BlockRunner)
    model = loaded.runner.model
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    held = sum(tensor.nbytes for tensor in tensors.values())
    foretold = model_bytes(shapes, model.dtype.itemsize, quantisation)
    # Beside the weights there is the rotary table; tiles of int4 keep their zeros in one byte.
    assert foretold * 0.88 < held < foretold * 1.01
    assert (loaded.info.quantisation, loaded.info.parameters) == (quantisation, 7_344_384)
    assert loaded.info.quantised_share > 0.99
    assert loaded.can_draft


def read_demo() -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(DEMO / "model.safetensors")


@pytest.mark.shared
@tiered(
    lambda *_: False,
    quantisation=named(KINDS),
    sampling={"greedy": GREEDY, "sampled": SAMPLED},
    folder={"demo": DEMO, "stories": STORIES},
)
def test_lookahead_writes_what_plain_writes_also_when_a_prefix_is_reused(
    quantisation: Quantisation, sampling: Sampling, folder: Any
) -> None:
    if not folder.exists():
        pytest.skip("the trained model stories260K is not beside this checkout")
    loaded = load(ModelFolder(folder, folder.name), ModelChoice("it", "float32", "cpu", quantisation))
    for question in QUESTIONS:
        prompt = encode(loaded.tokenizer, question, loaded.info.context)
        said = says_plainly(loaded.runner, prompt, sampling, limit=60).tokens
        longer = (*prompt, *said[:30], *prompt[1:])
        again = write(loaded.runner, longer, plain, sampling, limit=60).tokens
        assert loaded.runner.reused >= len(prompt) + 29
        loaded.runner.forget()
        ahead = make_lookahead(Decoding())
        assert write(loaded.runner, prompt, ahead, sampling, limit=60).tokens == said
        assert write(loaded.runner, longer, ahead, sampling, limit=60).tokens == again
        assert loaded.runner.reused >= len(prompt) + 29


@tiered(lambda *ids: ids in BY_DEFAULT, architecture=named((*BRANCHING, *TREES)), quantisation=named(KINDS))
def test_every_architecture_keeps_its_promise_when_quantised(
    architecture: Architecture, quantisation: Quantisation
) -> None:
    model, prompt = architecture.make(), numbers(30)
    quantise(model, quantisation, CPU)
    loaded = load_made(model)
    assert loaded.can_draft
    expected = says_plainly(loaded.runner, prompt, SAMPLED)
    for drafts in ((right,), (branching, half_right)):
        loaded.runner.forget()
        oracle = Oracle((*prompt, *expected.tokens), drafts)
        assert write(loaded.runner, prompt, with_pool(oracle, Decoding()), SAMPLED).tokens == expected.tokens


def test_recurrent_models_are_refused_in_one_sentence() -> None:
    architecture = next(one for one in RECURRENT if one.name == "mamba")
    with pytest.raises(BadOption, match=r"cannot be quantised to int8 .* choose the quantisation none\.$"):
        quantise(architecture.make(), "int8", CPU)


def test_a_card_without_a_kernel_is_refused_before_weights_are_read() -> None:
    card = torch.device("cuda")

    def tiled(bits: int, _dtype: torch.dtype, _device: torch.device) -> FoundKernel:
        return FoundKernel(ANYWHERE[bits], "its trial failed")

    for name in KINDS:
        words = f"no kernel for {name} weights in float16 .its trial failed.: choose another"
        with pytest.raises(BadOption, match=words):
            check_can_quantise(name, torch.float16, card, tiled)
        check_can_quantise(name, torch.float16, CPU, tiled)
    check_can_quantise("int8", torch.float16, card, lambda *_: FoundKernel(CpuInt8Linear))


class CompileError(Exception):
    """As Triton's, which are no RuntimeError."""


class Uncompiled(TiledInt8Linear):
    """A kernel that the compiler refuses for many rows."""

    def multiply(self, states: torch.Tensor) -> torch.Tensor:
        if len(states) > 64:
            raise CompileError("out of resource")
        return super().multiply(states)


class Wrong(TiledInt8Linear):
    """A kernel that forgets what it was given beyond 32 rows."""

    def multiply(self, states: torch.Tensor) -> torch.Tensor:
        product = super().multiply(states)
        product[32:] = 0
        return product


class Backwards(TiledInt8Linear):
    """A kernel that reads states from their end."""

    def multiply(self, states: torch.Tensor) -> torch.Tensor:
        return super().multiply(states.flip(-1))


def test_a_kernel_that_fails_for_many_rows_or_reads_them_in_another_order_is_not_used() -> None:
    found = [fault_of(kernel, torch.float32, CPU) for kernel in (TiledInt8Linear, Wrong, Backwards)]
    wrong = "its products of {} rows of 256 values are wrong"
    assert found == ["", wrong.format(33), wrong.format(3)]
    with pytest.raises(CompileError):
        fault_of(Uncompiled, torch.float32, CPU)


class MiddleTile(TiledInt8Linear):
    """A kernel whose tile of 17 to 32 rows is wrong for rows that do not end with a tile, as down_proj's here."""

    tried: ClassVar[list[tuple[int, int, int]]] = []

    def multiply(self, states: torch.Tensor) -> torch.Tensor:
        rows, size = states.shape
        self.tried.append((rows, self.out_features, size))
        product = super().multiply(states)
        return product + 9 if 16 < rows <= 32 and size == 172 else product


class UncompiledTile(TiledInt8Linear):
    """The same tile, which the compiler refuses there."""

    def multiply(self, states: torch.Tensor) -> torch.Tensor:
        if 16 < len(states) <= 32 and self.in_features == 172:
            raise CompileError("out of resource")
        return super().multiply(states)


def finds(kernel: type[QuantisedLinear]) -> FindKernel:
    """A machine with this kernel for 8 bits."""
    return lambda bits, _dtype, _device: FoundKernel(kernel if bits == 8 else ANYWHERE[bits])


@pytest.mark.parametrize("kernel", [MiddleTile, UncompiledTile])
def test_a_kernel_that_fails_for_one_tile_of_one_layers_rows_is_not_used_there(
    kernel: type[QuantisedLinear],
) -> None:
    model = make_model()
    quantise(model, "int8", CPU, finds(kernel))
    used = {name.rpartition(".")[2]: type(layer) for name, layer in model.named_modules()}
    assert (used["down_proj"], used["up_proj"], used["lm_head"]) == (TiledInt8Linear, kernel, kernel)


def test_every_length_of_a_row_is_tried_once_at_load() -> None:
    MiddleTile.tried.clear()
    quantise(make_model(), "int8", CPU, finds(MiddleTile))
    # Of 172 rows the last tile of columns is another variant as well: 172 = 10 * 16 + 12.
    shapes = [(64, 172), (64, 64), (76, 64)]
    assert {(out, size) for _, out, size in MiddleTile.tried} == set(shapes)
    assert len(MiddleTile.tried) == len(set(MiddleTile.tried)) <= len(shapes) * len(TRIED_ROWS)


def test_on_a_card_such_a_kernel_is_refused_in_one_sentence() -> None:
    of_card = [
        _TriedKernels(quantisation, torch.float32, torch.device("cuda"), finds(Unfinished))
        for quantisation in KINDS
    ]
    with pytest.raises(BadOption, match=r"no kernel for int8 weights in float32 \(.+\): choose another"):
        of_card[0].fitting(8, nn.Linear(172, 64))
    assert of_card[1].fitting(8, nn.Linear(172, 64)) is TiledInt8Linear, "of an int4 model's head"


def test_a_kernel_that_is_slower_than_dense_weights_is_refused_with_both_times() -> None:
    model, timed = make_model(), []
    linears = list(quantisation._linears(model, "int8"))

    def timer(run: Run) -> float:
        out = run()
        assert isinstance(out, torch.Tensor)
        timed.append(out.shape)
        return (5e-3, 1e-3)[len(timed) % 2 == 0]

    of_card = _TriedKernels("int8", torch.float32, CPU, finds(MiddleTile))
    words = r"int8 weights in float32 \(it takes 5.0 times as long as torch's with dense weights\): choose"
    for _ in range(2):
        with pytest.raises(BadOption, match=words):
            of_card.check_time(linears, timer)
    shapes = {(layer.out_features, layer.in_features) for parent, name, *_ in linears
              if (layer := parent.get_submodule(name))}  # fmt: skip
    assert len(timed) == 2 * len(shapes), "each shape once, ours and torch's, and never again"
    of_card.check_time(linears, lambda _run: 1e-3)


class Unfinished(TiledInt8Linear):
    """A kernel that the compiler refuses."""

    def _keep(self, _numbers: object, _dtype: torch.dtype) -> None:
        raise CompileError("out of resource")


def test_a_trial_takes_every_tile_of_the_cards_kernel() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from app.engine.layers.packed_weight_triton import FEW_ROWS, product_tile

    def tiles(rows: Iterable[int]) -> set[int]:
        return {product_tile(each, 64, torch.bfloat16, FEW_ROWS)[0] for each in rows}

    assert tiles(TRIED_ROWS) == tiles(range(1, FEW_ROWS + 1))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_whatever_a_trial_raises_is_the_reason_and_the_true_one() -> None:
    card = torch.device("cuda")
    assert find_kernel(8, torch.float16, CPU) == FoundKernel(ANYWHERE[8], "there is none for float16")
    for bits in ANYWHERE:  # torch has no CUDA here, and says so with an AssertionError
        found = find_kernel(bits, torch.bfloat16, card)
        assert found.kernel is ANYWHERE[bits] and found.reason
        assert "Triton" not in found.reason or find_spec("triton") is None
