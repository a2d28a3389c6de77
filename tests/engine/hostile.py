"""Model folders that want to hang, exhaust or fool whoever opens them: one function for each, over a tiny model."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Spoil = Callable[[Path], object]
"""Makes a tiny model's folder hostile."""


def config(**changes: Any) -> Spoil:
    """Other values in config.json; what is `...` is taken out."""

    def spoil(folder: Path) -> None:
        file = folder / "config.json"
        values = {**json.loads(file.read_text()), **changes}
        file.write_text(json.dumps({key: value for key, value in values.items() if value is not ...}))

    return spoil


def write(name: str, content: bytes | str) -> Spoil:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def long(name: str, size: int) -> Spoil:
    """A file of this size, which takes no room on the disk."""

    def spoil(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return spoil


def instead(name: str, make: Callable[[Path], object]) -> Spoil:
    """Something else than a file of this name."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return spoil


def pipe(name: str) -> Spoil:
    """A file that is never read to its end."""
    return instead(name, os.mkfifo)


def link(name: str, target: str) -> Spoil:
    return instead(name, lambda path: path.symlink_to(target))


def directory(name: str) -> Spoil:
    return instead(name, Path.mkdir)


def template(text: str) -> Spoil:
    return write("chat_template.jinja", text)


def tokenizer(change: Callable[[dict[str, Any]], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        file = folder / "tokenizer.json"
        values = json.loads(file.read_text())
        change(values)
        file.write_text(json.dumps(values))

    return spoil


def tokenizer_config(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return spoil


def added(count: int) -> list[dict[str, Any]]:
    """Tokens for a vocabulary."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": 4096 + i, "content": f"<{i}>", "special": True, **flags} for i in range(count)]


def pattern(where: str, regex: str) -> Spoil:
    """A pattern that is searched for in every text."""
    kinds = {
        "normalizer": {"type": "Replace", "pattern": {"Regex": regex}, "content": "x"},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False,
        },
    }  # fmt: skip
    return tokenizer(lambda values: values.update({where: kinds[where]}))


def header(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Another directory of the weights, with the same bytes behind it."""

    def spoil(folder: Path) -> None:
        file = folder / "model.safetensors"
        whole = file.read_bytes()
        size = struct.unpack("<Q", whole[:8])[0]
        values = json.loads(whole[8 : 8 + size])
        change(values)
        text = json.dumps(values).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size :])

    return spoil


def entry(**changes: Any) -> Spoil:
    """The embedding's entry in the directory of the weights."""
    return header(lambda values: values["model.embed_tokens.weight"].update(changes))


def index(name: object) -> Spoil:
    """Weights in several files, by an index that names this one."""

    def spoil(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        shards = {"weight_map": {"model.embed_tokens.weight": name}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(shards))

    return spoil


def both(*spoils: Spoil) -> Spoil:
    return lambda folder: [spoil(folder) for spoil in spoils]


NESTED = "[" * 100_000
DEFAULT = "{{ messages[0].content }}"
SIZES = (
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "intermediate_size",
    "vocab_size", "head_dim", "max_position_embeddings",
)  # fmt: skip
ODD = {
    "negative": -1, "huge": 10**12, "endless": 10**400, "a fraction": 2.5, "text": "four",
    "no number": float("nan"), "a list": [1], "true": True,
}  # fmt: skip

REFUSED: dict[str, tuple[str, Spoil]] = {
    "100,000 layers": ("config.json", config(num_hidden_layers=100_000)),
    "more layers than weights": ("config.json", config(num_hidden_layers=1_500)),
    "layers by another name": ("config.json", config(n_layer=10**9)),
    "layers in a part": ("config.json", config(vision_config={"num_hidden_layers": 10**9})),
    "no sizes at all": ("config.json", config(**dict.fromkeys(SIZES, ...))),
    "wider than the weights": ("config.json", config(hidden_size=100_000)),
    "as wide as there are words": ("config.json", config(hidden_size=4096, intermediate_size=2_000_000)),
    "experts without end": (
        "config.json",
        config(model_type="mixtral", architectures=["MixtralForCausalLM"], num_local_experts=19_999),
    ),
    "tables of positions without end": (
        "config.json",
        config(model_type="gpt2", max_position_embeddings=..., n_positions=99_999_999, n_embd=32, n_layer=2),
    ),
    **{
        f"{name} is {what}": ("config.json", config(**{name: value}))
        for name in SIZES
        for what, value in ODD.items()
    },
    "heads that do not divide": ("tiny", config(num_attention_heads=7)),
    "brackets without end": ("config.json", write("config.json", NESTED)),
    "a nested config": ("config.json", write("config.json", '{"text_config":' * 100_000)),
    "a config of 500 MB": ("config.json", long("config.json", 500_000_000)),
    "a config that is no object": ("config.json", write("config.json", "[1]")),
    "a config behind a mark": ("config.json", write("config.json", b"\xef\xbb\xbf{}")),
    "a config that is a pipe": ("config.json", pipe("config.json")),
    "a config that is a device": ("config.json", link("config.json", "/dev/zero")),
    "a config that is a folder": ("config.json", directory("config.json")),
    "a config that links to itself": ("config.json", link("config.json", "config.json")),
    "code of its own": (
        "Python code",
        both(
            config(model_type="homemade", auto_map={"AutoConfig": "own.Own"}),
            write("own.py", "open('ran', 'w')"),
        ),
    ),
    "a rope of nothing": ("tiny", config(rope_parameters={"rope_type": "default", "rope_theta": "x"})),
    "a rope without end": (
        "tiny",
        config(rope_parameters={"rope_type": "dynamic", "factor": float("inf"), "rope_theta": 1.0}),
    ),
    "an end that is text": ("tiny", config(eos_token_id="end")),
    "ends in a heap": ("tiny", config(eos_token_id=[[1], [2]])),
    "a template without end": (
        "chat template",
        template("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
    ),
    "a template of a power": ("chat template", template("{{ 10 ** (10 ** 10) }}")),
    "a template that doubles": (
        "chat template",
        template(
            "{% set ns = namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}"
            "{% endfor %}{{ ns.x }}"
        ),
    ),
    "a template of a long word": ("chat template", template("{{ 'a' * 10 ** 10 }}")),
    "a template of a wide word": ("chat template", template("{{ 'a'|center(10 ** 10) }}")),
    "a template of a format": ("chat template", template("{{ '%10000000000d' % 1 }}")),
    "a template that calls itself": (
        "chat template",
        template("{% macro m(n) %}{{ m(n + 1) ~ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
    ),
    "a template of 10 MB": ("chat_template.jinja", template("{{ 1 }}" * 1_500_000)),
    "a template that is a pipe": ("chat_template.jinja", pipe("chat_template.jinja")),
    "a template among many that is a pipe": (
        "more.jinja",
        both(directory("additional_chat_templates"), pipe("additional_chat_templates/more.jinja")),
    ),
    "a tokenizer that panics when it is read": (
        "tokenizer",
        tokenizer(
            lambda values: values.update(
                normalizer={"type": "Precompiled", "precompiled_charsmap": "/////wAA"}
            )
        ),
    ),
    "a tokenizer that panics over a text": (
        "tokenizer",
        tokenizer(
            lambda values: values.update(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
                    "pair": [],
                    "special_tokens": {},
                }
            )
        ),
    ),
    "a normaliser that explodes": ("tokenizer", pattern("normalizer", "(a|aa)+$")),
    "a splitter that explodes": ("tokenizer", pattern("pre_tokenizer", "(a|aa)+$")),
    "a truncated tokenizer": ("tokenizer", write("tokenizer.json", '{"version": "1.0", "model": {"ty')),
    "a tokenizer that is an array": ("tokenizer", write("tokenizer.json", "[]")),
    "a tokenizer of brackets": ("tokenizer", write("tokenizer.json", NESTED)),
    "a tokenizer of 500 MB": ("tokenizer.json", long("tokenizer.json", 500_000_000)),
    "a tokenizer that is a pipe": ("tokenizer.json", pipe("tokenizer.json")),
    "a million added tokens": (
        "tokenizer",
        tokenizer(lambda values: values.update(added_tokens=added(400_000))),
    ),
    "added tokens in the config": (
        "tokenizer_config.json",
        lambda folder: tokenizer_config(added_tokens_decoder={str(one["id"]): one for one in added(100_000)})(
            folder
        ),
    ),
    "a tokenizer config of brackets": ("tokenizer", write("tokenizer_config.json", NESTED)),
    "a tokenizer config that is a pipe": ("tokenizer_config.json", pipe("tokenizer_config.json")),
    "a tokenizer config that is an array": ("tiny", write("tokenizer_config.json", "[]")),
    "a template that is a number": (
        "tiny",
        both(lambda folder: (folder / "chat_template.jinja").unlink(), tokenizer_config(chat_template=5)),
    ),
    "templates that are nonsense": (
        "tiny",
        both(
            lambda folder: (folder / "chat_template.jinja").unlink(), tokenizer_config(chat_template=[1, {}])
        ),
    ),
    "a header without end": (
        "model.safetensors",
        write("model.safetensors", struct.pack("<Q", 2**60) + b"{}"),
    ),
    "a header of brackets": (
        "model.safetensors",
        write("model.safetensors", struct.pack("<Q", 100_000) + NESTED.encode()),
    ),
    "a header that promises infinity": (
        "model.safetensors",
        write("model.safetensors", struct.pack("<Q", 39) + b'{"a": {"data_offsets": [0, 1e999999999]}}'[:39]),
    ),
    "offsets that overlap": ("tiny", entry(data_offsets=[0, 4 * 4096 * 32])),
    "a shape that overflows": ("weight", entry(shape=[2**40, 2**40])),
    "a shape of many sizes": ("weight", entry(shape=[1] * 100_000)),
    "a negative shape": ("weight", entry(shape=[-4096, -32])),
    "a type that is unknown": ("weight", entry(dtype="F2048")),
    "a missing tensor": (
        "model.safetensors is damaged",
        header(lambda values: values.pop("model.norm.weight")),
    ),
    "weights that are a pipe": ("model.safetensors", pipe("model.safetensors")),
    "weights that are a device": ("model.safetensors", link("model.safetensors", "/dev/zero")),
    "an index out of the folder": ("index.json", index("../../../../etc/passwd")),
    "an index to a root": ("index.json", index("/etc/passwd")),
    "an index of nonsense": ("index.json", index({"a": []})),
    "an index of brackets": ("index.json", both(index("x"), write("model.safetensors.index.json", NESTED))),
    "a generation config that is a pipe": ("generation_config.json", pipe("generation_config.json")),
    "a generation config of ends": ("tiny", write("generation_config.json", '{"eos_token_id": [[1]]}')),
}
"""Name -> (what the sentence names, how a folder becomes it)."""

HARMLESS: dict[str, Spoil] = {
    "ends out of range": config(eos_token_id=[2, 10**9, -5]),
    "many ends": write("generation_config.json", json.dumps({"eos_token_id": list(range(100_000))})),
    "a key twice": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace("{", '{"num_hidden_layers": 1000000000,', 1)
    ),
    "a generation config of nonsense": write("generation_config.json", "[[["),
    "code that is not needed": both(
        config(auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}),
        write("own.py", "raise SystemExit('this must not run')"),
    ),
    "a template that refuses": template("{{ raise_exception('never') }}"),
    "a template that is none": template("{% for %}"),
    "a template that imports": template("{% import '/etc/passwd' as x %}{% include '/etc/passwd' %}"),
    "a template that looks inside": template("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
    "a tensor too many": header(
        lambda values: values.update(extra={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})
    ),
}
"""Folders that load all the same, whatever they are up to."""
