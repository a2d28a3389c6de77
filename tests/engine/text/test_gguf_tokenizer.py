"""A GGUF file's vocabulary gives the ids that its model was trained with.

All ids are written in. llama.cpp's library gives the same where nothing else is said."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import pytest
from transformers import PreTrainedTokenizerFast

from app.engine.loading.loading import default_template
from app.engine.text.gguf_folder import unpacked
from app.engine.text.gguf_tokenizer import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Vocabulary,
    build_tokenizer,
    end_tokens,
    write_tokenizer,
)
from app.errors import ModelBroken
from app.settings import assets_dir
from app.values.gguf_header import read_gguf_values
from app.values.gguf_words import word_rules
from app.values.messages import ModelFolder

SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in SHOWN]
LETTERS = [chr(byte if byte in SHOWN else 256 + HIDDEN.index(byte)) for byte in range(256)]
"""A token for each byte: "A" is 65 and a space is 32."""
PIECES = ["<unk>", "<s>", "</s>", "▁▁", "Hi", "▁Hi", "▁[", "▁H", "▁", "H", "i", "[", "\n"]
CHATML = ["<|im_start|>", "<|im_end|>"]


def made(
    place: Path,
    tokens: Sequence[str],
    kinds: Mapping[str, int] = {},
    merges: Sequence[str] = (),
    scores: Sequence[float] = (),
    architecture: str = "llama",
    **values: Any,
) -> Vocabulary:
    """Write a vocabulary into a file and read it; `values` are those below "tokenizer."."""
    writer = gguf.GGUFWriter(place / "tiny.gguf", architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
    writer.add_feed_forward_length(8)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(list(tokens))
    writer.add_token_types([kinds.get(token, NORMAL) for token in tokens])
    if merges:
        writer.add_token_merges(list(merges))
    if scores:
        writer.add_token_scores(list(scores))
    for key, value in values.items():
        add = {bool: writer.add_bool, int: writer.add_uint32}.get(type(value), writer.add_string)
        add(f"tokenizer.{key.replace('__', '.')}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return Vocabulary(read_gguf_values(place / "tiny.gguf"))


def read(vocabulary: Vocabulary, place: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer as the app does."""
    write_tokenizer(vocabulary, place / "made")
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(place / "made")
    return tokenizer


def ids(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def pieces(place: Path, more: Sequence[str] = (), kinds: Mapping[str, int] = {}, **values: Any) -> Vocabulary:
    """A vocabulary like Llama 2's, with bytes after its pieces; the first pieces have the best scores."""
    tokens = [*PIECES, *more, *(f"<0x{byte:02X}>" for byte in range(256))]
    types = {token: BYTE for token in tokens[-256:]} | {
        "<unk>": UNKNOWN,
        "<s>": CONTROL,
        "</s>": CONTROL,
        **kinds,
    }
    scores = [-float(number) for number in range(len(tokens))]
    return made(place, tokens, types, scores=scores, ggml__model="llama", **values)


def words(place: Path, *merges: str, kinds: Mapping[str, int] = {}, **values: Any) -> Vocabulary:
    """A vocabulary like GPT-2's: bytes, what is merged of them, and other tokens."""
    tokens = [*LETTERS, *dict.fromkeys(merge.replace(" ", "") for merge in merges), *kinds]
    return made(place, tokens, kinds, merges, ggml__model="gpt2", **values)


def test_a_space_precedes_each_text_of_sentence_pieces_also_after_a_control_token(tmp_path: Path) -> None:
    tokenizer = read(pieces(tmp_path), tmp_path)
    assert ids(tokenizer, "Hi") == [5]
    assert ids(tokenizer, " Hi") == [3, 4]
    assert ids(tokenizer, "<s>[Hi</s>Hi") == [1, 6, 4, 2, 5]
    assert ids(tokenizer, "é") == [8, 13 + 0xC3, 13 + 0xA9]
    assert tokenizer("Hi").input_ids == [1, 5]
    assert tokenizer.decode([5, 8, 4]) == "Hi Hi"


def test_no_space_precedes_where_the_file_says_so(tmp_path: Path) -> None:
    tokenizer = read(pieces(tmp_path, ggml__add_space_prefix=False, ggml__add_bos_token=False), tmp_path)
    assert tokenizer("Hi Hi<s>Hi").input_ids == [4, 5, 1, 4]
    assert tokenizer.decode([5, 4]) == " HiHi"


def test_control_tokens_of_phi_3_take_line_breaks_with_them(tmp_path: Path) -> None:
    # llama.cpp knows the model by its name alone.
    kinds = {"<|user|>": CONTROL, "<|end|>": CONTROL, "</s>": USER_DEFINED}
    vocabulary = pieces(tmp_path, ["<|user|>", "<|end|>"], kinds, architecture="phi3")
    tokenizer = read(vocabulary, tmp_path)
    assert ids(tokenizer, "<|user|>\nHi<|end|>\n <|user|></s>\n<s>\n") == [13, 5, 14, 13, 2, 1, 8, 12]
    assert ids(read(pieces(tmp_path, ["<|user|>"], kinds), tmp_path), "<|user|>\n") == [13, 8, 12]


def test_whole_words_are_kept_where_the_models_merges_are_ignored(tmp_path: Path) -> None:
    kinds = {"Ġabc": NORMAL}
    llama = read(words(tmp_path, "a b", kinds=kinds, ggml__pre="llama-bpe", ggml__bos_token_id=65), tmp_path)
    assert ids(llama, " abc abc.") == [257, 257, ord(".")]
    qwen = read(words(tmp_path, "a b", kinds=kinds, ggml__pre="qwen2"), tmp_path)
    assert ids(qwen, " abc") == [32, 256, ord("c")]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("llama-bpe", [257, 257, 257, 32, 256]),
        ("qwen2", [49] * 9 + [32, 49, 49]),
        ("gpt-2", [256, 256, 256, 257, 32, 256]),
        ("", [257, 257, 257, 32, 256]),
    ],
)
def test_numbers_are_cut_as_the_name_says(pre: str, expected: list[int], tmp_path: Path) -> None:
    named = {"ggml__pre": pre} if pre else {}
    tokenizer = read(words(tmp_path, "1 1", "11 1", **named), tmp_path)
    assert ids(tokenizer, "111111111 11") == expected


def test_composed_letters_are_one_where_the_model_was_trained_so(tmp_path: Path) -> None:
    assert ids(read(words(tmp_path, "a b", ggml__pre="qwen2"), tmp_path), "e\u0301") == [0xC3, 0xA9]
    assert ids(read(words(tmp_path, "a b", ggml__pre="gpt-2"), tmp_path), "e\u0301") == [101, 0xCC, 0x81]


def test_words_of_capitals_are_cut_by_case_in_any_script(tmp_path: Path) -> None:
    """llama.cpp cuts "AÉB" after the accent, because its patterns know the case of ASCII letters alone."""
    tokenizer = read(words(tmp_path, "A Ã", "AÃ ī", "AÃī B", ggml__pre="gpt-4o"), tmp_path)
    assert ids(tokenizer, "AÉB") == [258]


def test_control_tokens_are_special_and_those_of_the_maker_are_text(tmp_path: Path) -> None:
    kinds = {"<|im_start|>": CONTROL, "<think>": USER_DEFINED, "<|im_end|>": NORMAL, "[PAD9]": 5}
    tokenizer = read(words(tmp_path, "a b", kinds=kinds, ggml__pre="qwen2", ggml__eos_token_id=259), tmp_path)
    assert ids(tokenizer, "<|im_start|>ab<think><|im_end|>[P") == [257, 256, 258, 259, ord("["), ord("P")]
    assert tokenizer.decode([257, 256, 258, 259], skip_special_tokens=True) == "ab<think>"
    assert tokenizer.eos_token_id == 259


def test_a_letter_that_the_maker_added_is_that_letter_and_no_byte(tmp_path: Path) -> None:
    tokens = [letter for letter in LETTERS if letter not in "øÁ"]
    vocabulary = made(
        tmp_path,
        [*tokens, "ab", "ø", "Á"],
        {"ø": USER_DEFINED, "Á": USER_DEFINED},
        ["a b"],
        ggml__model="gpt2",
    )
    tokenizer = read(vocabulary, tmp_path)
    assert ids(tokenizer, "abøÁé") == [254, 255, 256, tokens.index("Ã"), tokens.index("©")]
    assert tokenizer.decode(ids(tokenizer, "abøÁé")) == "abøÁé"


def test_texts_begin_and_end_as_the_file_says_or_its_kind_has_it(tmp_path: Path) -> None:
    roles: dict[str, Any] = {"ggml__bos_token_id": 257, "ggml__eos_token_id": 258, "ggml__pre": "llama-bpe"}
    kinds = {"<a:b>": CONTROL, "<c>": CONTROL}

    def around(**values: Any) -> list[int]:
        vocabulary = words(tmp_path, "a b", kinds=kinds, **roles | values)
        return list(read(vocabulary, tmp_path)("ab").input_ids)

    assert around() == [257, 256]
    assert around(ggml__add_bos_token=False, ggml__add_eos_token=True) == [256, 258]
    assert around(ggml__pre="qwen2") == [256]
    assert around(ggml__eos_token_id=257, ggml__add_eos_token=True) == [257, 256, 257]


def test_gemmas_words_are_lines_of_characters_and_bytes(tmp_path: Path) -> None:
    tokens = ["<unk>", "<bos>", "▁", "a", "\n", "\n\n", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = {"<unk>": CONTROL, "<bos>": CONTROL} | {token: BYTE for token in tokens[-256:]}
    values = {"ggml__unknown_token_id": 0, "ggml__bos_token_id": 1, "ggml__add_bos_token": False}
    vocabulary = made(tmp_path, tokens, kinds, ["\n \n", "▁ a"], ggml__model="gemma4", **values)
    tokenizer = read(vocabulary, tmp_path)
    assert tokenizer("a a\n\n aé").input_ids == [1, 3, 6, 5, 6, 7 + 0xC3, 7 + 0xA9]
    assert tokenizer.decode([3, 6, 5, 6, 7 + 0xC3, 7 + 0xA9]) == "a a\n\n aé"


def test_the_likeliest_pieces_are_chosen(tmp_path: Path) -> None:
    tokens = ["<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "ab", "▁ab"]
    kinds = {"<pad>": CONTROL, "</s>": CONTROL, "<unk>": UNKNOWN}
    scores = [0.0, 0.0, 0.0, -2.0, -2.0, -1.5, -1.0, -1.0, -4.0]
    values = {"ggml__add_space_prefix": True, "ggml__remove_extra_whitespaces": True}
    tokenizer = read(made(tmp_path, tokens, kinds, scores=scores, ggml__model="t5", **values), tmp_path)
    assert tokenizer("  ab   aab ").input_ids == [6, 5, 6, 7, 1]
    assert tokenizer("c").input_ids == [3, 2, 1]


@pytest.mark.parametrize(
    ("tokens", "ends"),
    [
        (["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<|endoftext|>", "<|im_end|>"]),
        (["<|start|>", "<|end|>", "<|return|>", "<|call|>"], ["<|return|>", "<|call|>"]),
        (["<|user|>", "<|end|>"], ["<|end|>"]),
        (["<eos>", "</s>", "<|tool_response>", "<turn|>"], ["<eos>", "<|tool_response>", "<turn|>"]),
    ],
)
def test_all_tokens_that_end_a_turn_are_known(tokens: list[str], ends: list[str], tmp_path: Path) -> None:
    vocabulary = words(tmp_path, "a b", kinds=dict.fromkeys(tokens, CONTROL), ggml__eot_token_id=66)
    assert end_tokens(vocabulary) == [66, *(vocabulary.ids[end] for end in ends)]


def test_templates_have_names(tmp_path: Path) -> None:
    vocabulary = words(tmp_path, "a b", chat_template="Talk", chat_template__tool_use="Call")
    tokenizer = read(vocabulary, tmp_path)
    assert tokenizer.get_chat_template() == "Talk" and tokenizer.get_chat_template(tools=[{}]) == "Call"
    assert read(words(tmp_path, "a b"), tmp_path / "other").chat_template is None
    only = read(words(tmp_path, "a b", chat_template__rag="Read"), tmp_path / "only")
    assert only.get_chat_template() == only.get_chat_template(tools=[{}]) == "Read"
    named = words(
        tmp_path, "a b", chat_template__rag="Read", chat_template__chat="Talk", chat_template__tool_use="Call"
    )
    tokenizer = read(named, tmp_path / "named")
    assert tokenizer.get_chat_template() == "Talk" and tokenizer.get_chat_template(tools=[{}]) == "Call"


def test_a_word_does_not_begin_chats_because_other_models_begin_them_with_it(tmp_path: Path) -> None:
    """Qwen 2 has the word "<s>"."""
    kinds = {"<s>": NORMAL, "<|im_start|>": CONTROL, "<|im_end|>": CONTROL}
    tokenizer = read(words(tmp_path, "a b", kinds=kinds), tmp_path)
    tokenizer.chat_template = default_template(tokenizer.get_added_vocab())
    asked = tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False)
    assert asked == "<|im_start|>user\nab<|im_end|>\n"


@pytest.mark.parametrize("values", [{"ggml__pre": "tomorrow"}, {"ggml__model": "tomorrow"}])
def test_a_vocabulary_of_tomorrow_is_told_as_newer_and_not_as_damaged(
    values: dict[str, str], tmp_path: Path
) -> None:
    made(tmp_path, LETTERS, merges=["a b"], **{"ggml__model": "gpt2", **values})
    expected = (
        r'The vocabulary of tiny is of a kind .* does not know \("tomorrow"\): update Foresight, or choose'
    )
    with (
        pytest.raises(ModelBroken, match=expected),
        unpacked(ModelFolder(tmp_path / "tiny.gguf", "tiny"), None),
    ):
        pass


@pytest.mark.parametrize("tokens", [[], ["a", "a"]])
def test_an_impossible_vocabulary_is_refused(tokens: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its vocabulary is not complete"):
        made(tmp_path, tokens, ggml__model="gpt2")


def test_no_rule_loses_a_character() -> None:
    tokens = [*LETTERS, "ab", *"▁βжЖ中あ한\u0301\u3000ǅ\U0001f600\n\r\t"]
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["a b"],
    }
    text = "It's 1234567 o'CLOCK, ÉÉé βжЖ中\u3000あ한!\r\n\r\n  \t x=(y)#1,234.5 ǅe\u0301 \U0001f600  "
    for name, rule in word_rules(assets_dir()).items():
        tokenizer = build_tokenizer(Vocabulary({**values, "tokenizer.ggml.pre": name}))
        expected = text.replace("e\u0301", "\u00e9") if rule.composes else text
        assert tokenizer.decode(tokenizer.encode(text).ids) == expected, name
