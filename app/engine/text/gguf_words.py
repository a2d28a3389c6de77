r"""How a vocabulary cuts a text into words before it merges them, by the name that a GGUF file gives (`pre`).

The names are llama.cpp's, the patterns those of the models' own tokenizers. llama.cpp approximates some of them,
because its patterns know the case of ASCII letters alone.

    "llama-bpe"    "It's 1234 o'clock"    ->    It | 's |   | 123 | 4 |  o | 'clock
"""

from collections.abc import Mapping
from dataclasses import dataclass

ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
SPACES = r"\s+(?!\S)|\s+"
LINES = rf"\s*[\r\n]+|{SPACES}"
SIGNS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINES}"
PATHS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINES}"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
DIGIT, DIGITS, THREE_DIGITS = r"\p{N}", r"\p{N}+", r"\p{N}{1,3}"
LINE = r"[^\n]+|\n+"

GPT2 = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|{SPACES}"
LLAMA3 = rf"{ENDINGS}|{WORD}|{THREE_DIGITS}|{SIGNS}"
QWEN2 = rf"{ENDINGS}|{WORD}|{DIGIT}|{SIGNS}"
BLOOM = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+"
ASCII_WORD = r"[!-/:-@\[-`{-~][A-Za-z]+"
DEEPSEEK3 = rf"{ASCII_WORD}|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+"
KANJI = r"[\x{4e00}-\x{9fa5}\x{3040}-\x{30ff}]+"
HAN_OR_HANGUL = r"[\x{800}-\x{9fa5}\x{ac00}-\x{d7ff}]+"
OLD_CASED = (  # cased letters of an older Unicode
    r"[\p{Lu}\p{Ll}\p{Lt}&&[^\x{560}-\x{588}\x{10c7}-\x{10ff}\x{1c80}-\x{1c8f}\x{2d00}-\x{2d2d}\x{a790}-\x{a7fa}"
    r"\x{ab30}-\x{ab68}\x{10570}-\x{105bb}\x{16e40}-\x{16e7f}\x{1d400}-\x{1df1e}]]"
)
AFMOE = (
    r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{3040}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}"
    r"\x{e40}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}"
    r"\x{1100}-\x{11ff}]+"
)
YOUTU = (
    r"[\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}"
    r"\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{30ff}]+"
)


def _cased(ending: str = "", capitals: str = CAPITALS, small: str = SMALL) -> str:
    """Return the pattern of words that begin with capital letters and go on with small ones."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}{capitals}*{small}+{ending}|{before}{capitals}+{small}*{ending}"


@dataclass(frozen=True, slots=True)
class WordRule:
    """The patterns cut a text in turn: what a pattern matches is a word, and so is what lies between."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word of the vocabulary is one token, whatever its merges would make of it
    begins: bool = False  # texts begin with BOS unless the file says otherwise
    composes: bool = False  # letters and accents are composed (NFC)
    byte_level: bool = True  # otherwise spaces are written as ▁, and unknown characters as <0x..>


NO_HAN = r"&&[^\p{Han}]]"
KIMI_CASED = _cased(ENDINGS + "?", CAPITALS[:-1] + NO_HAN, SMALL[:-1] + NO_HAN)
GPT4O = rf"{_cased(ENDINGS + '?')}|{THREE_DIGITS}|{PATHS}"
TEKKEN = rf"{_cased()}|{DIGIT}|{PATHS}"
QWEN35 = (
    rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|{DIGIT}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}"
)
BAILING = rf"'(?i:[sdmt]|ll|ve|re)|{WORD}|{DIGIT}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]|{SPACES}"
EXAONE = (
    rf"{ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|{DIGIT}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|{SPACES}"
)
JAIS = "|".join(rf"\s{{{count}}}(?!\S)" for count in (512, 256, 128, 64, 32, 16, 8, 4, "1,2"))
CHAMELEON = "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", r"[\t\n]|    |  ", DIGIT, r"[\p{P}!-/:-@\[-`{-~]", GPT2
OLD_SIGNS = r"\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+"
DEEPSEEK_LLM = r"[\r\n]", rf"\s?{OLD_CASED}+", OLD_SIGNS, r"\s+$", HAN_OR_HANGUL, DIGIT

_NAMES: tuple[tuple[str, WordRule], ...] = (
    ("gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling", WordRule((GPT2,))),
    ("mpt olmo", WordRule((GPT2,), composes=True)),
    ("starcoder refact smollm codeshell exaone minerva-7b mellum2", WordRule((DIGIT, GPT2))),
    ("command-r", WordRule((DIGIT, GPT2), composes=True)),
    ("falcon", WordRule((r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"))),
    ("default", WordRule((r"[\p{P}$+<=>^~|]+", GPT2, DIGITS, "[0-9][0-9][0-9]"))),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        WordRule((LLAMA3,), whole_words=True, begins=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", WordRule((LLAMA3,))),
    ("glm4 glm5", WordRule((LLAMA3,), whole_words=True)),
    ("minicpm5", WordRule((THREE_DIGITS, LLAMA3.replace("{1,3}", "+")), whole_words=True)),
    ("jais-2", WordRule((LLAMA3.replace(SPACES, rf"{JAIS}|\s"),))),
    ("qwen2 f2llmv2 stablelm2", WordRule((QWEN2,), composes=True)),
    ("qwen35", WordRule((QWEN35,))),
    ("deepseek-r1-qwen kormo megrez hunyuan solar-open grok-2", WordRule((QWEN2,))),
    ("ufakzeka", WordRule((rf"{WORD}|{DIGIT}|{SIGNS}",))),
    ("seed-coder", WordRule((rf"{ENDINGS}|{WORD}|{DIGIT}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{LINES}",))),
    ("bailingmoe bailingmoe2 llada-moe", WordRule((BAILING,))),
    ("exaone-moe", WordRule((EXAONE,))),
    ("laguna", WordRule((LINE, QWEN2))),
    ("tekken", WordRule((TEKKEN,), whole_words=True, begins=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", WordRule((GPT4O,))),
    ("tiny_aya cohere2moe", WordRule((r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O), composes=True)),
    ("kimi-k2", WordRule((rf"\p{{Han}}+|{KIMI_CASED}|{THREE_DIGITS}|{SIGNS}",))),
    ("youtu", WordRule((YOUTU, rf"{_cased(ENDINGS + '?')}|{DIGIT}|{PATHS}"), whole_words=True)),
    (
        "deepseek-v3 hunyuan-dense hy_v4 joyai-llm",
        WordRule((THREE_DIGITS, KANJI, rf"{DEEPSEEK3}[\r\n]*|{LINES}")),
    ),
    ("spark2_5", WordRule((THREE_DIGITS, KANJI, rf"{DEEPSEEK3}|[\r\n]|{SPACES}", DIGIT))),
    ("afmoe", WordRule((r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE, rf"{DEEPSEEK3}[\r\n]*|{LINES}"))),
    ("deepseek-llm", WordRule(DEEPSEEK_LLM)),
    ("deepseek-coder", WordRule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_OR_HANGUL, DIGIT))),
    ("poro-chat bloom gpt3-finnish", WordRule((BLOOM,))),
    ("viking", WordRule((BLOOM, DIGIT))),
    ("chameleon", WordRule(CHAMELEON, begins=True)),
    ("superbpe", WordRule((DIGITS, r"(?=(\d{3})+(?!\d))"))),
    ("gemma4", WordRule((LINE,), begins=True, byte_level=False)),
    ("sarvam-moe", WordRule((LINE,), byte_level=False)),
)
RULES: Mapping[str, WordRule] = {name: rule for names, rule in _NAMES for name in names.split()}
