"""Messages or raw text to token ids, and a reader that counts them.

A chat that ends with the assistant's own words asks for more of them. It is read as when those words were written:
the template asks for a reply, and what there is of the reply follows as tokens of its own.

    user: Hi, assistant: He    ->    [<user>Hi<end> <assistant>] [He]

The template never sees the begun reply: many take thoughts out of it, or the space at its end (transformers'
`continue_final_message` keeps what they leave), and then the model would go on behind another text. So a text that
ends where a token ended goes on as if nobody had stopped; one cut inside a token is read as tokens that spell it.

What messages say is text, though it spells a control token (`control_tokens.py`); a raw prompt is the person's own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from transformers import PreTrainedTokenizerBase

from app.engine.text.control_tokens import ControlTokens
from app.engine.text.fewest_tokens import FewestTokens
from app.engine.text.reader import FAR, CachedTokenReader, in_parts
from app.engine.text.sandbox import SandboxRefusal, fill_here, panics_as_errors
from app.errors import BadOption, PromptTooLong
from app.values.dataclass_json import parse_json
from app.values.messages import Message, Prompt, ToolCall

NO_VALUES: Mapping[str, Any] = MappingProxyType({})
Fill = Callable[[str, Sequence[Message], Mapping[str, Any]], str]
"""(template, chat, special tokens) -> the chat as the template writes it. Raises SandboxRefusal."""


def encode(
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, context: int, fill: Fill = fill_here, tools: str = ""
) -> list[int]:
    """Token ids of a chat (with the model's template) or of raw text (as the tokenizer adds to it).

    A chat that ends with the assistant's words is to be continued there. `tools` are JSON, for the template.

    Raises PromptTooLong when no token of a reply would fit behind it, BadOption when nothing is left of it."""
    return PromptTokenizer(tokenizer, context, fill).ids(prompt, tools)


class PromptTokenizer:
    """Makes prompts tokens. Any thread may ask, where no other code changes how this tokenizer reads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, context: int, fill: Fill = fill_here) -> None:
        self._tokenizer, self._context, self._fill = tokenizer, context, fill
        self._controls = ControlTokens(tokenizer)
        self._fewest = FewestTokens(tokenizer)

    def ids(self, prompt: Prompt, tools: str = "") -> list[int]:
        """As `encode`. What surely has too many tokens is refused before they are made."""
        with panics_as_errors():
            ids = self._raw_ids(prompt) if isinstance(prompt, str) else self._chat_ids(prompt, tools)
        if not ids:
            raise BadOption("The prompt has no tokens for this model: write at least one word.")
        if len(ids) >= self._context:
            raise PromptTooLong(len(ids), self._context)
        return ids

    def written(self, text: str) -> list[int]:
        """Token ids of a text by itself, which spells no control tokens."""
        with panics_as_errors():
            return self._controls.anew().written(text)

    def begun(self, prompt: Prompt) -> list[int]:
        """Token ids of the reply that a chat ends with, the last ones of `ids`; [] when it is to begin."""
        return [] if isinstance(prompt, str) else self.written(_begun_text(prompt))

    def reader(self) -> CachedTokenReader:
        """A reader that counts chats: exactly, unless they surely have more than FAR times the context's tokens."""
        controls, context = self._controls.anew(), self._context
        count = in_parts(lambda text: len(controls.ids(text)), _borders(self._tokenizer))

        def tokens(chat: tuple[Message, ...]) -> int:
            hidden = _hidden(controls, chat)
            with panics_as_errors():
                texts = self._asked_text(controls, hidden), _begun_text(hidden)
                least = sum(self._fewest.of(controls.shown(text)) for text in texts)
                return least if least > FAR * context else sum(map(count, texts))

        return CachedTokenReader(context, tokens, lambda token: _alone(self._tokenizer, token))

    def _raw_ids(self, text: str) -> list[int]:
        self._refuse_far_too_long(text)
        return list(self._tokenizer(text).input_ids)

    def _chat_ids(self, messages: Sequence[Message], tools: str) -> list[int]:
        controls = self._controls.anew()
        hidden = _hidden(controls, messages)
        template_values = {"tools": _hidden_values(controls, parse_json(tools))} if tools else {}
        texts = self._asked_text(controls, hidden, template_values), _begun_text(hidden)
        self._refuse_far_too_long(*map(controls.shown, texts))
        return [number for text in texts for number in controls.ids(text)]

    def _refuse_far_too_long(self, *texts: str) -> None:
        if (least := sum(map(self._fewest.of, texts))) >= self._context:
            raise PromptTooLong(least, self._context, is_least=True)

    def _asked_text(
        self,
        controls: ControlTokens,
        messages: tuple[Message, ...],
        template_values: Mapping[str, Any] = NO_VALUES,
    ) -> str:
        asked = messages[:-1] if _is_begun(messages) else messages
        if not asked:
            raise BadOption("There is no question before the reply that is to go on: write one first.")
        if not self._tokenizer.chat_template:
            return _plain_dialogue(asked)
        try:
            template = self._tokenizer.get_chat_template(tools=template_values.get("tools"))
            return self._fill(template, asked, {**self._tokenizer.special_tokens_map, **template_values})
        except SandboxRefusal as error:
            raise BadOption(
                f"The model's chat template refuses this chat ({controls.shown(str(error))}): start a new chat, "
                "or send the text without a template (--raw)."
            ) from error


def _borders(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The special tokens that leave the text around them as it is."""
    added = tokenizer.added_tokens_decoder.values()
    return [
        token.content
        for token in added
        if token.special and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    ]


def _alone(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    """A token's text, with the space that some tokenizers leave out where a text begins."""
    once, twice = (
        str(tokenizer.decode([token] * times, clean_up_tokenization_spaces=False)) for times in (1, 2)
    )
    return twice[len(once) :]


def _begun_text(messages: Sequence[Message]) -> str:
    return messages[-1].content if _is_begun(messages) else ""


def _is_begun(messages: Sequence[Message]) -> bool:
    return messages[-1].role == "assistant" and not messages[-1].calls


def _hidden(controls: ControlTokens, messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(_hidden_message(controls, message) for message in messages)


def _hidden_message(controls: ControlTokens, message: Message) -> Message:
    content = controls.hidden(message.content)
    if not message.calls and not message.name:
        return message if content is message.content else replace(message, content=content)
    calls = tuple(_hidden_call(controls, call) for call in message.calls)
    return replace(message, content=content, calls=calls, name=controls.hidden(message.name))


def _hidden_call(controls: ControlTokens, call: ToolCall) -> ToolCall:
    """A call without control tokens, however its arguments spell them."""
    try:
        values = _hidden_values(controls, parse_json(call.arguments))
        arguments = json.dumps(values, ensure_ascii=False)
    except ValueError:
        arguments = controls.hidden(call.arguments)
    return replace(call, name=controls.hidden(call.name), arguments=arguments)


def _hidden_values(controls: ControlTokens, value: Any) -> Any:
    match value:
        case str():
            return controls.hidden(value)
        case list():
            return [_hidden_values(controls, one) for one in value]
        case dict():
            return {controls.hidden(key): _hidden_values(controls, one) for key, one in value.items()}
    return value


def _plain_dialogue(messages: Sequence[Message]) -> str:
    """A model without a chat template continues a written dialogue."""
    lines = [f"{message.role.capitalize()}: {message.content}" for message in messages]
    return "\n".join([*lines, "Assistant:"])
