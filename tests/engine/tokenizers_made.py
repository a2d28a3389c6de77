"""Tokenizers made in a moment: of bytes, with a space before every text, and one that is lossy."""

import json
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXT = (
    "Once upon a time there was a fox in a wood, and the fox was old. The trip to Japan takes twelve hours by "
    "train; the trip to Rome takes three. def halved(number):\n    return number // 2\n\n"
    "How are you today, my friend?\n"
)
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CASED = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How Llama 3 and those after it split texts."""


@cache
def bytes_of_words(vocabulary: int = 400) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2's and Llama 3's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CASED), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=CONTROLS, initial_alphabet=letters, show_progress=False
    )
    made.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=CONTROLS[0], eos_token=CONTROLS[2])


@cache
def with_a_space_before() -> PreTrainedTokenizerFast:
    """BPE of characters with bytes for unknown ones, which puts <s> and a space before every text, as Llama 2's."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    unknown = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=unknown, show_progress=False)
    # A token holds no two words.
    made.train_from_iterator(TEXT.replace("\n", " ").split(" "), trainer)
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    about = json.loads(made.to_str())
    about["added_tokens"] = about["added_tokens"][:3]  # bytes are no control tokens
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(about)),
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


@cache
def in_small_letters() -> PreTrainedTokenizerFast:
    """One that does not tell capitals, as BERT's."""
    made = Tokenizer(models.WordLevel({"<unk>": 0, "once": 1, "upon": 2}, unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
