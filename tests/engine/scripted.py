"""A tiny model that writes a given text, whatever it reads: which token comes depends on its position alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from app.values.messages import ModelFolder

END = "<|im_end|>"
CONTROLS = ("<|endoftext|>", "<|im_start|>", END)


def write_scripted(
    folder: Path,
    text: str,
    template: str,
    eos: str = END,
    context: int = 512,
    more: str = "",
    controls: Sequence[str] = (),
    **values: Any,
) -> ModelFolder:
    """Save a model whose replies are `text`, then END, then `more` for ever; each character is a token.

    Its files name `eos` as the end of a reply, and it has more `controls`. The reply to "Hi", with the `values` for
    the template, begins at its beginning; other prompts move it."""
    tokenizer = _letters(eos, (*CONTROLS, *controls))
    tokenizer.chat_template = template
    chat = [{"role": "user", "content": "Hi"}]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **values)
    begin = len(tokenizer(prompt, add_special_tokens=False).input_ids)
    script = tokenizer(f"{text}{END}", add_special_tokens=False).input_ids
    rest = tokenizer(more or END, add_special_tokens=False).input_ids
    end = tokenizer.convert_tokens_to_ids(eos)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=context, n_embd=context, n_layer=1, n_head=8, n_inner=8,
        tie_word_embeddings=False, bos_token_id=end, eos_token_id=end,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(float("ln_" in name and name.endswith("weight")))
        model.transformer.wpe.weight.copy_(torch.eye(context))
        for place in range(context - begin + 1):
            token = script[place] if place < len(script) else rest[(place - len(script)) % len(rest)]
            model.lm_head.weight[token, place + begin - 1] = 10.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return ModelFolder(folder, folder.name)


def _letters(eos: str, controls: Sequence[str]) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token=eos, bos_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": list(controls)})
    return tokenizer
