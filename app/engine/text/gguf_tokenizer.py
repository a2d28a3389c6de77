"""Writes the tokenizer and the config of a GGUF file into a model's folder.

The tokenizer is built from the file's vocabulary. Values that the file lacks are looked up by the name of the
pre-tokenizer (`gguf_words.py`), or are those that llama.cpp assumes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from app.engine.text.gguf_config import config_of
from app.settings import assets_dir
from app.values.chat_format import main_template
from app.values.gguf_header import parts_of, read_gguf_header, read_gguf_values
from app.values.gguf_words import WordRule, rule_name, word_rules

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""llama.cpp's numbers for the types of tokens."""
SPACE = "▁"
NO_BYTES = frozenset("ÀÁõö÷øùúûüýþÿ")
"""The letters that byte-level vocabularies use for bytes that no UTF-8 text contains. In DeepSeek's vocabularies a
user-defined token of such a letter means the letter itself."""
DEFAULT_IDS: Mapping[str, Mapping[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
}
"""The ids of special tokens in files that do not give them, by the kind of vocabulary."""
ENDS = """
    <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s>
    <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> [e~[
    <\uff5cend▁of▁sentence\uff5c>
"""
"""Tokens that end a turn in vocabularies that have them, except NOT_ENDS."""
NOT_ENDS = (
    ("<|end|>", ("<|return|>", "<|call|>")),
    ("<|end|>", ("<|calls|>", "<|flush|>")),
    ("</s>", ("<|tool_response>",)),
    ("</s>", ("<|plamo:eos|>",)),
)
"""Tokens of ENDS that do not end a turn if the vocabulary has all of the tokens listed with them."""


class Vocabulary:
    """The vocabulary in the values of a GGUF header. Raises ValueError if it is incomplete or has a token twice."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.model = str(self.value("model", ""))
        self.tokens = [token or f"[EMPTY_{at}]" for at, token in enumerate(self.value("tokens", []))]
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        count = len(self.tokens)
        self.scores: list[float] = self.value("scores", [0.0] * count)
        kinds: list[int] = self.value("token_type", [NORMAL] * count)
        if not count or len(self.ids) != count or min(len(kinds), len(self.scores)) < count:
            raise ValueError("its vocabulary is not complete")
        plain = {name for name, others in NOT_ENDS if self.ids.keys() >= set(others)}
        self.ends = set(ENDS.split()) - plain
        typed = zip(self.tokens, kinds, strict=False)
        self.kinds = [CONTROL if token in self.ends else kind for token, kind in typed]

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key below "tokenizer.ggml."; `default` if there is none."""
        return self._values.get(f"tokenizer.ggml.{key}", default)

    def special(self, name: str) -> int | None:
        """Return the id of the special token with this role ("bos", "eos", "unknown" …); None if there is none."""
        number = self.value(f"{name}_token_id", DEFAULT_IDS.get(self.model, {}).get(name))
        return number if isinstance(number, int) and 0 <= number < len(self.tokens) else None

    def word_rule(self) -> WordRule:
        """Return the rule that cuts texts into words. Raises KeyError if its name is unknown."""
        return word_rules(assets_dir())[rule_name(self._values)]

    def of_kinds(self, *kinds: int) -> Iterator[tuple[int, str]]:
        return ((number, token) for number, token in enumerate(self.tokens) if self.kinds[number] in kinds)

    @property
    def templates(self) -> str | dict[str, str]:
        """The chat template; all templates by name if there are several; "" if there is none."""
        main, named = "tokenizer.chat_template", "tokenizer.chat_template."
        others = {
            key.removeprefix(named): str(one) for key, one in self._values.items() if key.startswith(named)
        }
        default = str(self._values.get(main, "")) or main_template(others)
        return {**others, "default": default} if others else default

    @property
    def begins(self) -> bool:
        """Whether a text begins with BOS."""
        default = self.model == "llama" or (self.model == "gpt2" and self.word_rule().begins)
        # files of Gemma 4 have a wrong add_bos_token
        return self.model == "gemma4" or bool(self.value("add_bos_token", default))

    def strips_after(self, token: str) -> bool:
        """Return whether the white space after a token is removed. GGUF files do not store this property."""
        is_phi = self.model == "llama" and self._values.get("general.architecture") == "phi3"
        return is_phi and token not in ("<unk>", "<s>", "<|endoftext|>")


def unpack(file: Path, target: Path) -> None:
    """Make the folder `target`, and write the tokenizer and the config of the model in a GGUF file into it.

    Raises errors of any type, because the file is not trusted."""
    target.mkdir()  # fails if its parent was removed in the meantime, because the load was cancelled
    vocabulary = Vocabulary(read_gguf_values(parts_of(file)[0]))
    write_tokenizer(vocabulary, target)
    config = config_of(read_gguf_header(file))
    if known := end_tokens(vocabulary):
        config.eos_token_id = known if len(known) > 1 else known[0]
    config.save_pretrained(target)


def write_tokenizer(vocabulary: Vocabulary, target: Path) -> None:
    """Write the tokenizer of a vocabulary into a folder. Raises what `build_tokenizer` raises."""
    names = ("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")
    controls = dict(vocabulary.of_kinds(CONTROL, UNKNOWN))
    numbers = {f"{role}_token": vocabulary.special(name) for role, name in names}
    named = {role: controls[number] for role, number in numbers.items() if number in controls}
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=build_tokenizer(vocabulary),
        clean_up_tokenization_spaces=False,
        chat_template=vocabulary.templates or None,
        **named,
    ).save_pretrained(target)


def end_tokens(vocabulary: Vocabulary) -> list[int]:
    """Return the ids of the tokens that end a turn: first those with a role in the file, then those in ENDS."""
    named = [vocabulary.special(role) for role in ("eos", "eot", "eom")]
    known = [number for number, token in enumerate(vocabulary.tokens) if token in vocabulary.ends]
    return list(dict.fromkeys(number for number in (*named, *known) if number is not None))


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer of a vocabulary. Raises ValueError or KeyError for unknown kinds, or without merges."""
    match vocabulary.model:
        case "gpt2" | "gemma4":
            tokenizer = _of_words(vocabulary, vocabulary.word_rule())
        case "llama":
            tokenizer = _of_scored_merges(vocabulary)
        case "t5":
            tokenizer = _of_likely_pieces(vocabulary)
        case model:
            raise ValueError(f"its vocabulary is of an unknown kind, {model[:60]!r}")
    tokenizer.add_special_tokens(list(_added(vocabulary, CONTROL, UNKNOWN)))
    tokenizer.add_tokens(list(_added(vocabulary, USER_DEFINED)))
    tokenizer.post_processor = _around(vocabulary)
    return tokenizer


def _of_words(vocabulary: Vocabulary, rule: WordRule) -> Tokenizer:
    """Build a tokenizer that cuts texts into words and merges the bytes or characters of each word."""
    known, merges = vocabulary.ids, list[tuple[str, str]]()
    for merge in vocabulary.value("merges", []):
        at = merge.find(" ", 1)
        left, right = merge[:at], merge[at + 1 :]
        if left in known and right in known and left + right in known:
            merges.append((left, right))
    if not merges:
        raise ValueError("its vocabulary has no merges")
    splits: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns
    ]
    if rule.byte_level:
        tokenizer = Tokenizer(models.BPE(vocab=known, merges=merges, ignore_merges=rule.whole_words))
        spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        letters = [token for _, token in vocabulary.of_kinds(USER_DEFINED) if token in NO_BYTES]
        restored = [decoders.Replace(one, spell.pre_tokenize_str(one)[0][0]) for one in letters]
        tokenizer.decoder = decoders.Sequence([*restored, decoders.ByteLevel()])
        splits.append(spell)
    else:
        tokenizer = _with_bytes(vocabulary, merges, prefix=False)
    if rule.composes:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    return tokenizer


def _of_scored_merges(vocabulary: Vocabulary) -> Tokenizer:
    """Build a tokenizer like SentencePiece's BPE, which first merges the pair whose token has the highest score."""
    pieces = dict(vocabulary.of_kinds(NORMAL, USER_DEFINED, UNUSED))
    known = set(pieces.values())
    best_first = sorted(pieces, key=lambda number: -vocabulary.scores[number])
    merges = [
        (piece[:at], piece[at:])
        for piece in map(pieces.__getitem__, best_first)
        for at in range(1, len(piece))
        if piece[:at] in known and piece[at:] in known
    ]
    return _with_bytes(vocabulary, merges, prefix=bool(vocabulary.value("add_space_prefix", True)))


def _with_bytes(vocabulary: Vocabulary, merges: list[tuple[str, str]], prefix: bool) -> Tokenizer:
    """Build a tokenizer that writes spaces as ▁ and unknown characters as bytes.

    With `prefix` a space is added before each text."""
    unknown = vocabulary.special("unknown")
    token = None if unknown is None else vocabulary.tokens[unknown]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary.ids, merges=merges, unk_token=token, fuse_unk=True, byte_fallback=True)
    )
    replace = normalizers.Replace(" ", SPACE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replace]) if prefix else replace
    tokenizer.decoder = _spaces_decoder(prefix)
    return tokenizer


def _spaces_decoder(prefix: bool) -> decoders.Decoder:
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if prefix else parts)


def _of_likely_pieces(vocabulary: Vocabulary) -> Tokenizer:
    """Build a tokenizer like SentencePiece's Unigram, which chooses the likeliest pieces."""
    never = min(vocabulary.scores) - 100  # so unlikely that no text is cut into control tokens
    pieces = [
        (token, score if kind in (NORMAL, UNUSED) else 0.0 if kind == USER_DEFINED else never)
        for token, score, kind in zip(vocabulary.tokens, vocabulary.scores, vocabulary.kinds, strict=False)
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, vocabulary.special("unknown")))
    merges_spaces = bool(vocabulary.value("remove_extra_whitespaces"))
    prefix = merges_spaces or bool(vocabulary.value("add_space_prefix"))
    steps = list[normalizers.Normalizer]()
    if charsmap := vocabulary.value("precompiled_charsmap"):
        steps.append(normalizers.Precompiled(bytes(byte % 256 for byte in charsmap)))
    if merges_spaces:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    if prefix:
        steps.append(normalizers.Prepend(SPACE))
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = _spaces_decoder(prefix)
    return tokenizer


def _added(vocabulary: Vocabulary, *kinds: int) -> Iterator[AddedToken]:
    """Yield the tokens of these types as added tokens, which are found before a text is cut into words."""
    for _, token in vocabulary.of_kinds(*kinds):
        strips = vocabulary.strips_after(token)
        yield AddedToken(token, rstrip=strips, normalized=False, special=USER_DEFINED not in kinds)


def _around(vocabulary: Vocabulary) -> processors.PostProcessor:
    """Return the processor that adds BOS before a text and EOS after it, as far as the vocabulary asks for them."""
    has_end = bool(vocabulary.value("add_eos_token", vocabulary.model == "t5"))
    before = [number for number in [vocabulary.special("bos")] * vocabulary.begins if number is not None]
    after = [number for number in [vocabulary.special("eos")] * has_end if number is not None]
    text = [*map(str, before), "$A", *map(str, after)]
    special = [
        {"id": str(number), "ids": [number], "tokens": [vocabulary.tokens[number]]}
        for number in {*before, *after}
    ]
    return processors.TemplateProcessing(single=text, pair=[*text, "$B"], special_tokens=special)
