"""Builds a tokenizer from the vocabulary of a GGUF file, and writes it in the form of a model's folder.

    model, pre, tokens, scores, types, merges    ->    tokenizer.json, tokenizer_config.json, chat_template.jinja

Ids are those of the model's own tokenizer. What the file does not say about it is known by name
(`gguf_words.py`), or is as llama.cpp has it. The contents are not trusted: this runs in the process that reads
the file.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from app.engine.text.gguf_words import RULES, WordRule

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of tokens."""
SPACE = "▁"
DEFAULT_IDS: Mapping[str, Mapping[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
}
"""The special tokens of files that do not name them, by the kind of vocabulary."""
BAR = "\uff5c"
"""DeepSeek's bar."""
ENDS = f"""
    <|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s>
    <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> [e~[
    <{BAR}end▁of▁sentence{BAR}>
"""
"""Tokens that end a turn in any vocabulary that has them."""
NOT_ENDS = (
    ("<|end|>", ("<|return|>", "<|call|>")),
    ("<|end|>", ("<|calls|>", "<|flush|>")),
    ("</s>", ("<|tool_response>",)),
    ("</s>", ("<|plamo:eos|>",)),
)
"""Except in vocabularies with all of these other tokens."""
CODE = f"""
    <|fim_prefix|> <fim-prefix> <fim_prefix> <PRE> ▁<PRE> <|code_prefix|> <|prefix|> <{BAR}fim▁begin{BAR}>
    <|fim_suffix|> <fim-suffix> <fim_suffix> <SUF> ▁<SUF> <|code_suffix|> <|suffix|> <{BAR}fim▁hole{BAR}>
    <|fim_middle|> <fim-middle> <fim_middle> <MID> ▁<MID> <|code_middle|> <|middle|> <{BAR}fim▁end{BAR}>
    <|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>
"""
"""Tokens that control the completion of code."""
PLAIN_AFTER = frozenset(("<unk>", "<s>", "<|endoftext|>"))
"""The only tokens of Phi-3 that do not take the white space after them with them."""


class UnknownVocabulary(Exception):
    """A vocabulary of a kind that this version cannot build; the message is what the file says about it."""


class Vocabulary:
    """The vocabulary in the values of a GGUF header. Raises ValueError if they contradict each other."""

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
        controls = self.ends | set(CODE.split())  # many files give them another type
        self.kinds = [
            CONTROL if token in controls else kind for token, kind in zip(self.tokens, kinds, strict=False)
        ]

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key below "tokenizer.ggml."; `default` if there is none."""
        return self._values.get(f"tokenizer.ggml.{key}", default)

    def special(self, name: str) -> int | None:
        """Return the id of the special token with this role: "bos", "eos", "unknown" …"""
        number = self.value(f"{name}_token_id", DEFAULT_IDS.get(self.model, {}).get(name))
        return number if isinstance(number, int) and 0 <= number < len(self.tokens) else None

    def word_rule(self) -> WordRule:
        """Return how words are cut. Raises UnknownVocabulary for an unknown name."""
        name = "gemma4" if self.model == "gemma4" else str(self.value("pre") or "default")
        if name not in RULES:
            raise UnknownVocabulary(f'"{name[:60]}"')
        return RULES[name]

    def of_kinds(self, *kinds: int) -> Iterator[tuple[int, str]]:
        """Yield the tokens of these types with their ids."""
        return ((number, token) for number, token in enumerate(self.tokens) if self.kinds[number] in kinds)

    @property
    def templates(self) -> str | dict[str, str]:
        """The chat template, or all of them by name if there are several; "" if there is none."""
        main, named = "tokenizer.chat_template", "tokenizer.chat_template."
        others = {
            key.removeprefix(named): str(one) for key, one in self._values.items() if key.startswith(named)
        }
        default = str(self._values.get(main, ""))
        return {"default": default, **others} if default and others else default

    @property
    def begins(self) -> bool:
        """Whether a text begins with BOS."""
        if self.model == "gemma4":
            return True  # many files of it deny this wrongly
        return bool(
            self.value(
                "add_bos_token", self.model == "llama" or (self.model == "gpt2" and self.word_rule().begins)
            )
        )

    @property
    def strips_after(self) -> bool:
        """Whether control tokens take the white space after them with them, which no file says."""
        return self.model == "llama" and self._values.get("general.architecture") == "phi3"


def write_tokenizer(vocabulary: Vocabulary, target: Path) -> None:
    """Write the tokenizer of a vocabulary into a folder.

    Raises UnknownVocabulary if it cannot be built, ValueError if the file is damaged."""
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
    """Return the ids of the tokens that end a turn: those that the file names, then those known by name."""
    named = [vocabulary.special(role) for role in ("eos", "eot", "eom")]
    known = [number for number, token in enumerate(vocabulary.tokens) if token in vocabulary.ends]
    return list(dict.fromkeys(number for number in (*named, *known) if number is not None))


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer of a vocabulary. Raises UnknownVocabulary if it is of an unknown kind."""
    match vocabulary.model:
        case "gpt2" | "gemma4":
            tokenizer = _of_words(vocabulary, vocabulary.word_rule())
        case "llama":
            tokenizer = _of_scored_merges(vocabulary)
        case "t5":
            tokenizer = _of_likely_pieces(vocabulary)
        case model:
            raise UnknownVocabulary(f'"{model[:60]}"')
    tokenizer.add_special_tokens(list(_added(vocabulary, CONTROL, UNKNOWN)))
    tokenizer.add_tokens(list(_added(vocabulary, USER_DEFINED)))
    tokenizer.post_processor = _around(vocabulary)
    return tokenizer


def _of_words(vocabulary: Vocabulary, rule: WordRule) -> Tokenizer:
    """Build a tokenizer that cuts texts into words and merges the bytes or characters of each."""
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
        tokenizer.decoder = decoders.ByteLevel()
        splits.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    else:
        tokenizer = _with_bytes(vocabulary, merges, prefix=False)
    if rule.composes:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
    return tokenizer


def _of_scored_merges(vocabulary: Vocabulary) -> Tokenizer:
    """Build a tokenizer like SentencePiece's BPE, which merges what has the highest score."""
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
    """Build a tokenizer that writes spaces as ▁, before each text another one with `prefix`, and unknown characters
    as bytes."""
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
    never = min(vocabulary.scores) - 100
    scores = dict.fromkeys(range(len(vocabulary.tokens)), never)
    scores |= {number: vocabulary.scores[number] for number, _ in vocabulary.of_kinds(NORMAL, UNUSED)}
    scores |= {number: 0.0 for number, _ in vocabulary.of_kinds(USER_DEFINED)}
    tokenizer = Tokenizer(
        models.Unigram(
            [(token, scores[at]) for at, token in enumerate(vocabulary.tokens)], vocabulary.special("unknown")
        )
    )
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
    """Yield the tokens of these types as those that are found before a text is cut."""
    for _, token in vocabulary.of_kinds(*kinds):
        strips = vocabulary.strips_after and token not in PLAIN_AFTER
        yield AddedToken(token, rstrip=strips, normalized=False, special=USER_DEFINED not in kinds)


def _around(vocabulary: Vocabulary) -> processors.PostProcessor:
    """Return what puts BOS before a text and EOS after it, for a vocabulary that has them there."""
    begin, end = vocabulary.special("bos"), vocabulary.special("eos")
    has_end = bool(vocabulary.value("add_eos_token", vocabulary.model == "t5"))
    before = [] if begin is None or not vocabulary.begins else [begin]
    after = [] if end is None or not has_end else [end]
    around = {f"special{number}": number for number in (*before, *after)}
    names = list(around)
    text = [*names[: len(before)], "$A", *names[len(before) :]]
    return processors.TemplateProcessing(
        single=text,
        pair=[*text, "$B"],
        special_tokens=[
            {"id": name, "ids": [number], "tokens": [vocabulary.tokens[number]]}
            for name, number in around.items()
        ],
    )
