"""Decides whether a model can be loaded here, from its config.json and the names of its files and tensors.

A model is refused with a sentence that says why, if possible before its weights are downloaded. Damaged files are
found in `model_files.py`.
"""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatch
from typing import Any, get_args

from app.errors import ModelBroken, ModelUnsafe
from app.models_registry.files.transformers_tables import (
    ENCODERS,
    MULTIMODAL,
    PICTURES,
    SPEAKING,
    TEXT,
    TRANSCRIBING,
    TRANSLATING,
    default_values,
    is_in,
    is_known,
)
from app.values.config_parts import text_values
from app.values.draft_heads import KIND
from app.values.model import CONFIG
from app.values.packed_checkpoint import AUTO_ROUND, Method, checkpoint_form

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SAFETENSORS = ".safetensors"
MODULES = "modules.json"
"""A file that only sentence-embedding models have."""
READABLE = ("fp8",)
"""Quantisation methods whose weights transformers dequantises while it reads them."""
FORMS = {
    "gptq": "GPTQ", "awq": "AWQ", "modelopt": "NVIDIA ModelOpt", "hqq": "HQQ", "aqlm": "AQLM", "exl2": "ExLlamaV2",
    "exl3": "ExLlamaV3", "eetq": "EETQ", "quark": "AMD Quark", "auto-round": "AutoRound", "quanto": "Quanto",
    "vptq": "VPTQ", "higgs": "HIGGS", "spqr": "SpQR", "bitnet": "BitNet",
}  # fmt: skip
"""Names of other quantisation methods as people write them, by their names in files."""
FORM_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq", "hf_quant_config.json": "modelopt"}
"""Files that show a quantisation method if config.json does not name it."""
PACKED = (
    ".qweight", ".q_weight", ".weight_packed", ".weight.absmax", ".weight._data", ".SCB", ".trellis", ".codebooks",
    ".biases", ".centroids.weight",
)  # fmt: skip
"""Ends of the names of tensors that only quantised models have."""
WHOLE_OR_SHORT = ("I", "U", "F8", "F4")
"""How the names of integer and short float types begin. Only quantised models store most numbers in these."""

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
MODEL_PICKLES = ("pytorch_model*.bin",)
TRAINED = "It has the state of a training, not the model's weights: choose the folder of the finished model."
WITHOUT_WEIGHTS = {
    "*.bin.index.json": "Only the index of pickled weights is there: choose a model with safetensors files.",
    "optimizer*": TRAINED, "scheduler*": TRAINED, "rng_state*": TRAINED, "random_states_*": TRAINED,
    "scaler.pt": TRAINED, "sampler.bin": TRAINED, "trainer_state.json": TRAINED, "training_args.bin": TRAINED,
}  # fmt: skip
"""Files that are beside a model's weights, and what to do if there are no weights."""
DIFFUSERS = (
    "It is a diffusers pipeline, or a part of one, which makes pictures or sound: choose a model for text."
)
OTHER_KINDS = {
    "model_index.json": DIFFUSERS,
    "diffusion_pytorch_model*": DIFFUSERS,
    "adapter_config.json": "It is an adapter: merge it into its base model first, or choose the base model.",
    "*.gguf": "It has GGUF files: choose one of them by its path.",
}
"""Files that show that a repository is not a model for transformers, and what to do."""
OTHER_FORMATS = {
    "consolidated*.safetensors": "Mistral's own libraries", "output*.safetensors": "ExLlama",
    "*.onnx": "ONNX", "*openvino*.xml": "OpenVINO",
    "*.mlmodel*": "Core ML", "*.mlpackage": "Core ML", "*.litertlm": "LiteRT", "*.task": "LiteRT",
    "*.tflite": "LiteRT", "*.nemo": "NeMo", "*.h5": "TensorFlow", "*.msgpack": "Flax", "*.npz": "MLX",
    "group*-shard*of*.bin": "TensorFlow for JavaScript", "saved_model.pb": "TensorFlow", "*.keras": "Keras",
    "*.ort": "ONNX", "*_model_states.pt": "DeepSpeed", "*_optim_states.pt": "DeepSpeed", "*.pte": "ExecuTorch",
    "consolidated*.pth": "Meta's own libraries", "*.distcp": "PyTorch's distributed checkpoints",
    "mlc-chat-config.json": "MLC LLM", "*.engine": "TensorRT", "*.llamafile": "llamafile",
    "vocabulary.json": "CTranslate2", "vocabulary.txt": "CTranslate2", "shared_vocabulary.*": "CTranslate2",
}  # fmt: skip
RATES = "rates or labels texts and writes none"
TASKS = {
    "ForSequenceClassification": RATES, "ForTokenClassification": RATES, "RewardModel": RATES,
    "ForQuestionAnswering": "marks the answers in texts and writes none",
    "ForMaskedLM": "fills gaps and writes no text",
    "ForImageClassification": "sorts pictures and writes no text", "ForCTC": "turns speech into text",
    "ForCausalLMEagle3": "drafts for another model, in a format that Foresight does not read",
}  # fmt: skip
"""Ends of the names of architectures, and what such models do instead of writing text."""
NEED_MORE = ("blip", "git", "idefics", "kosmos-2", "kosmos-2.5", "kyutai_speech_to_text", "trocr")
"""Kinds of models that need pictures or sound in addition to their prompt."""
OTHER_OUTPUT = {
    "blt": "reads and writes bytes instead of tokens",
    "cpmant": "reads tokens of its own before each prompt, which Foresight does not support",
    "diffusion_gemma": "does not write text token by token", "evolla": "needs a protein in addition to its prompt",
    "pi0": "controls robots and writes no text",
}  # fmt: skip
"""Other kinds of models that cannot be used here, and why."""


def refuse_files(names: Iterable[str], where: str) -> None:
    """Raise a ModelError, whose message begins with `where`, if files with these names cannot be a model."""
    names = list(names)
    if CONFIG in names and not {WHOLE, INDEX}.isdisjoint(names):
        return
    is_other = _matching(names, OTHER_KINDS) or (_other_kind(names) and not _matching(names, MODEL_PICKLES))
    if CONFIG in names and _pickled(names) and not is_other:
        raise ModelUnsafe(
            f"{where} has only pickled weights, which can run code when they are opened: "
            "choose a model with safetensors files, or convert this one to safetensors."
        )
    lacks = f"has no {WHOLE} and no {INDEX}" if CONFIG in names else f"is not a model: it has no {CONFIG}"
    advice = (
        _other_kind(names)
        or "Choose a folder or a hub model with config.json, a tokenizer and safetensors weights."
    )
    raise ModelBroken(f"{where} {lacks}. {advice}")


def is_of_other_kind(names: Collection[str]) -> bool:
    """Return whether any of these names shows another program's files, and none shows weights for transformers."""
    return {WHOLE, INDEX}.isdisjoint(names) and bool(_matching(names, (*OTHER_KINDS, *OTHER_FORMATS)))


def _other_kind(names: list[str]) -> str:
    """Return a sentence about what files with these names are instead of a model; "" if no name shows it."""
    for pattern, sentence in OTHER_KINDS.items():
        if _matching(names, [pattern]):
            return sentence
    inside = {name.rpartition("/")[0] for name in names if name.endswith((f"/{WHOLE}", f"/{INDEX}"))}
    if models := sorted(folder for folder in inside if f"{folder}/{CONFIG}" in names):
        folders = ", ".join(models)[:100]
        return f"It has models in folders ({folders}): choose one of them by its path."
    for pattern, library in OTHER_FORMATS.items():
        if _matching(names, [pattern]):
            return f"Its weights are only in the format of {library}: choose it in safetensors, or as a GGUF file."
    if not {WHOLE, INDEX}.isdisjoint(names):
        return f"Add the model's own {CONFIG} to its weights."
    if _matching(names, ["*-00001-of-*" + SAFETENSORS]):
        return f"Its weights are in several files: add the model's {INDEX}, which lists them."
    if other := _matching(names, ["*" + SAFETENSORS]):
        return (
            f"Its weights have names that Foresight does not load ({other[0][:100]}): choose another model."
        )
    beside = () if _pickled(names) else WITHOUT_WEIGHTS.items()
    return next((sentence for pattern, sentence in beside if _matching(names, [pattern])), "")


def _pickled(names: list[str]) -> list[str]:
    """Return the names of pickled weights among these files."""
    beside = _matching(names, WITHOUT_WEIGHTS)
    return [name for name in _matching(names, PICKLES) if name not in beside]


def _matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    patterns = list(patterns)
    return [
        name
        for name in names
        if any(fnmatch(part, one) for part in name.lower().split("/") for one in patterns)
    ]


def refuse_config(config: Mapping[str, Any], name: str, files: Iterable[str] = ()) -> None:
    """Raise a ModelError if a model with this config.json cannot be loaded; `files` are the names of its files."""
    if KIND in config:
        return
    kind, values = str(config.get("model_type", "")), text_values(config)
    if config.get("auto_map") and not is_known(kind):
        raise ModelUnsafe(
            f"{name} needs Python code of its own, which Foresight does not run: choose a model whose architecture "
            "transformers knows."
        )
    if not kind:
        raise ModelBroken(
            f"The config.json of {name} names no model_type: get the model's own config.json again."
        )
    if form := _quantised_form(values, files):
        raise ModelBroken(
            f"{name} is quantised by {form}, which Foresight does not read: choose the original "
            "model, which can be quantised while it is loaded, or a GGUF file."
        )
    if not is_known(kind):
        raise ModelBroken(
            f"{name} is a model of the kind {kind[:40]!r}, which this version of transformers does not know: "
            "update Foresight, or choose another model."
        )
    if MODULES not in files and (other := _other_task(config, kind)):
        raise ModelBroken(f"{name} {other}: choose a model that answers a text with text.")


def refuse_embedder(files: Iterable[str], name: str) -> None:
    """Raise ModelBroken for a sentence-embedding model, which can be downloaded, but writes no text."""
    if MODULES in files:
        raise ModelBroken(
            f"{name} is an embedding model, which writes no text: it can only be used to search documents. Choose "
            "another model to chat with."
        )


def refuse_tensors(names: Iterable[str], stored: str, name: str) -> None:
    """Raise ModelBroken if tensors with these names are quantised, although no config.json says so.

    `stored` is the type in which most numbers are stored."""
    if stored.startswith(WHOLE_OR_SHORT) or any(one.endswith(PACKED) for one in names):
        raise ModelBroken(
            f"The weights of {name} are quantised in a format that its config.json does not name: choose the "
            "original model, or a GGUF file."
        )


def _quantised_form(values: Mapping[str, Any], files: Iterable[str]) -> str:
    """Return the name of a quantisation that cannot be read; "" if the weights can be read."""
    if isinstance(values.get("quantization"), dict):
        return "MLX"
    stated = values.get("quantization_config")
    method = str(stated.get("quant_method", "")) if isinstance(stated, dict) else ""
    if not stated:
        method = next((form for file, form in FORM_FILES.items() if file in files), "")
    if method in READABLE or checkpoint_form(values) or not (stated or method):
        return ""
    name = FORMS.get(method, method[:40] or "an unknown method")
    return f"{name} in a layout of its own" if method in (*get_args(Method), AUTO_ROUND) else name


def _other_task(config: Mapping[str, Any], kind: str) -> str:
    """Return what a model does instead of writing text token by token, as the words that follow its name in a
    sentence; "" for a model that writes text token by token."""
    architectures = config.get("architectures")
    first = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    if task := next((task for end, task in TASKS.items() if first.endswith(end)), ""):
        return task
    if is_in(kind, SPEAKING, TRANSCRIBING) and not is_in(kind, MULTIMODAL):
        return "turns sound into text, or text into sound"
    is_text = is_in(kind, TEXT, MULTIMODAL, PICTURES, TRANSLATING)
    if is_text and config.get("is_encoder_decoder", default_values(kind).get("is_encoder_decoder")):
        return "is an encoder-decoder model, and Foresight runs only decoder-only models"
    if is_in(kind, ENCODERS) and not config.get("is_decoder"):
        return "is an encoder, which turns texts into numbers and writes none"
    if kind in NEED_MORE:
        return "needs pictures or sound, which Foresight does not read"
    if kind in OTHER_OUTPUT:
        return OTHER_OUTPUT[kind]
    return "" if is_text else f"is a model of the kind {kind!r}, which is not a text model of transformers"
