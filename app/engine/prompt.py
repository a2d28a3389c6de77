"""Messages or raw text to token ids."""

from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from app.errors import BadOption, PromptTooLong
from app.messages import Message


def encode(tokenizer: PreTrainedTokenizerBase, prompt: tuple[Message, ...] | str, context: int) -> list[int]:
    """Token ids of a chat (with the model's template) or of raw text (as the tokenizer adds to it).

    Raises PromptTooLong when no token of a reply would fit behind it, BadOption when nothing is left of it."""
    if isinstance(prompt, str):
        ids = list(tokenizer(prompt).input_ids)
    else:
        ids = list(tokenizer(_chat_text(tokenizer, prompt), add_special_tokens=False).input_ids)
    if not ids:
        raise BadOption("The prompt has no tokens for this model: write at least one word.")
    if len(ids) >= context:
        raise PromptTooLong(len(ids), context)
    return ids


def _chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> str:
    if not tokenizer.chat_template:
        return _plain_dialogue(messages)
    turns = [{"role": message.role, "content": message.content} for message in messages]
    try:
        return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))
    except TemplateError as error:
        raise BadOption(
            f"The model's chat template refuses this chat ({error}): start a new chat, "
            "or send the text without a template (--raw)."
        ) from error


def _plain_dialogue(messages: Sequence[Message]) -> str:
    """A model without a chat template continues a written dialogue."""
    lines = [f"{message.role.capitalize()}: {message.content}" for message in messages]
    return "\n".join([*lines, "Assistant:"])
