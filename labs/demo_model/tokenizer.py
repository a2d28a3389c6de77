"""Trains the byte-level BPE tokenizer on the conversations, and encodes them into one array of token ids."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY = 4096
CONTEXT = 1024
BEGIN, TURN, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# Prompts begin with BEGIN as training texts do, because without it the model does not know its own name.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Messages = list[dict[str, str]]


def read_messages(path: Path) -> Iterator[Messages]:
    """Read the messages of each conversation in a file that `prepare` wrote."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["messages"]


def train_tokenizer(texts: Iterator[str]) -> Any:
    """Train a byte-level BPE tokenizer in which every digit is a token of its own."""
    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, TURN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def as_text(messages: Messages) -> str:
    """Format a conversation as the model reads it in training."""
    return BEGIN + "".join(f"{TURN}{m['role']}\n{m['content']}{END}\n" for m in messages)


def encode(tokenizer: Any, conversations: list[Messages]) -> NDArray[np.uint16]:
    """Return the token ids of all conversations in one array."""
    encoded = tokenizer.encode_batch([as_text(messages) for messages in conversations])
    return np.concatenate([np.array(text.ids, dtype=np.uint16) for text in encoded])


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write the tokenizer and its chat template where transformers finds them."""
    make: Any = PreTrainedTokenizerFast
    fast = make(
        tokenizer_object=tokenizer, eos_token=END, pad_token=BEGIN, bos_token=BEGIN, model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("conversations", type=Path, help="the JSON lines file that prepare wrote")
    parser.add_argument("model", type=Path, help="folder for the tokenizer's files")
    parser.add_argument("ids", type=Path, help="the .npy file to write")
    options = parser.parse_args()
    conversations = list(read_messages(options.conversations))
    tokenizer = train_tokenizer(m["content"] for messages in conversations for m in messages)
    save_tokenizer(tokenizer, options.model)
    ids = encode(tokenizer, conversations)
    np.save(options.ids, ids)
    print(f"{len(ids):,} tokens, {len(ids) / len(conversations):.0f} per conversation")


if __name__ == "__main__":
    main()
