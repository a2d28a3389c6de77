"""Turns requests into token ids: the prompt, the beginning of a reply to continue, and the texts to draft from.

A chat that ends with an assistant's message without calls asks to continue this message:

    user: Hi, assistant: He    ->    [<user>Hi<end> <assistant>] [He]

The template never gets the begun reply, because many templates would remove thoughts from it, or the space at its
end. The begun reply is tokenised by itself, so the model usually continues as if it had never stopped."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from app.engine.text.control_tokens import ControlTokens
from app.engine.text.detokenizer import begun_text
from app.engine.text.sandbox import SandboxRefusal, fill_here, panics_as_errors
from app.engine.text.token_counter import FAR, CachedTokenReader, FewestTokens, in_parts, spelled_token
from app.errors import BadOption, PromptTooLong
from app.values.chat_format import CLOSING, DEFAULT_THINKING, OPENING, UNKNOWN_FORMAT, ChatFormat, Thinking
from app.values.dataclass_json import json_text, parse_json
from app.values.messages import Message, Prompt, Request, TokenIds

CHARACTERS_PER_TOKEN = 16
"""Far more characters than a token has on average. A text to draft from is truncated to this many characters
per token of the context; only then is it tokenised."""
NO_ANSWER = "…"
"""The text in place of a missing answer, because some templates refuse an empty answer."""
REMEMBERED = 4
"""Number of prompts whose ids are cached, because the user may compare several replies to the same prompt."""
Fill = Callable[[str, Sequence[Message], Mapping[str, Any], ChatFormat], str]
"""(template, chat, special tokens, format of the template) -> the filled template. Raises SandboxRefusal."""


class EncodedPrompt(NamedTuple):
    """A prompt's token ids; they end with `begun`, the beginning of a reply to continue.

    With `opens_thought` the text before the reply ends inside a thought."""

    ids: list[int]
    begun: list[int]
    opens_thought: bool = False


class TemplateValues(NamedTuple):
    """A request's values for the chat template besides its messages: JSON of tools, the choice of thinking, and
    other variables as a JSON object."""

    tools: str = ""
    thinking: Thinking = DEFAULT_THINKING
    variables: str = ""


NO_VALUES = TemplateValues()


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """A request's tokens: the prompt, which ends with the `begun` reply, and the texts to draft from."""

    made_by: "RequestTokenizer"
    prompt: list[int]
    begun: list[int]
    opens_thought: bool = False
    documents: tuple[tuple[int, ...], ...] = ()
    prediction: tuple[int, ...] = ()

    def followed_by(self, written: Sequence[int]) -> list[int]:
        """Return the prompt and then tokens of a reply. Raises BadOption for a token without weights."""
        self.made_by.check_vocabulary(written)
        return [*self.prompt, *written]


def encode(
    tokenizer: PreTrainedTokenizerBase, prompt: Prompt, context: int, fill: Fill = fill_here, tools: str = ""
) -> list[int]:
    """Return the token ids of a prompt, as a RequestTokenizer makes them."""
    return RequestTokenizer(tokenizer, context, fill).encoded(prompt, TemplateValues(tools)).ids


class RequestTokenizer:
    """Turns requests into tokens. Thread-safe if nothing else changes the tokenizer's settings."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        context: int,
        fill: Fill = fill_here,
        name: str = "this model",
        vocabulary: int = sys.maxsize,
        chat_format: ChatFormat = UNKNOWN_FORMAT,
    ) -> None:
        """Tokenise for the model called `name`, which has weights for the first `vocabulary` tokens."""
        self._tokenizer, self._context, self._fill = tokenizer, context, fill
        self._format = chat_format
        self._name, self._vocabulary = name, vocabulary
        self._controls = ControlTokens(tokenizer)
        self._fewest = FewestTokens(tokenizer)
        self.encoded = lru_cache(REMEMBERED)(self._encode)

    def tokens(self, request: Request) -> RequestTokens:
        """Turn a request's texts into tokens. Raises PromptTooLong, BadOption."""
        values = TemplateValues(request.tools, request.options.thinking, request.variables)
        prompt = self.encoded(request.prompt, values)
        self.check_vocabulary(prompt.ids)
        *documents, prediction = map(self._drafted, (*request.documents, request.prediction))
        return RequestTokens(self, *prompt, tuple(documents), prediction)

    def check_vocabulary(self, ids: Sequence[int]) -> None:
        """Raise BadOption unless each id has an embedding. On a GPU an id without embedding would make all later
        calls of the process fail."""
        if (largest := max(ids, default=0)) >= self._vocabulary:
            raise BadOption(
                f"The tokenizer and the weights of {self._name} do not fit each other (token {largest:,} of "
                f"{self._vocabulary:,}): choose another model."
            )

    def reader(self) -> CachedTokenReader:
        """Make a reader, which counts chats exactly unless they are certain to exceed FAR times the context."""
        controls, context = self._controls.anew(), self._context
        # Special tokens with no setting that changes how the text around them is tokenised.
        borders = [
            token.content
            for token in self._tokenizer.added_tokens_decoder.values()
            if token.special and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
        ]
        count = in_parts(lambda text: len(controls.ids(text)), borders)

        def tokens(chat: tuple[Message, ...], thinking: Thinking, tools: str) -> int:
            with panics_as_errors():
                texts = self._texts(controls, chat, TemplateValues(tools, thinking))
                least = sum(self._fewest.of(controls.shown(text)) for text in texts)
                return least if least > FAR * context else sum(map(count, texts))

        return CachedTokenReader(context, tokens, self._spelled)

    def _encode(self, prompt: Prompt, values: TemplateValues = NO_VALUES) -> EncodedPrompt:
        """Encode a prompt. A chat is filled into the model's template. Raw text gets the special tokens that
        the tokenizer adds. Ids stay as they are.

        The last message of a chat is continued if it is the assistant's and has no calls. A prompt that is certain
        to have too many tokens is refused before it is tokenised.

        Raises PromptTooLong if the context has no room for a token of a reply. Raises BadOption for a prompt
        without tokens, a chat that the template refuses, and ids that the model does not know."""
        begun, opens_thought = list[int](), False
        with panics_as_errors():
            if isinstance(prompt, str):
                self._refuse_far_too_long(prompt)
                ids = list(self._tokenizer(prompt).input_ids)
            elif isinstance(prompt, TokenIds):
                ids = list(prompt.ids)
                if (largest := max(ids)) >= self._vocabulary:
                    raise BadOption(
                        f"The prompt has the token id {largest:,}, and {self._name} has only ids below "
                        f"{self._vocabulary:,}: send ids of this model's own tokenizer."
                    )
            else:
                controls = self._controls.anew()
                texts = self._texts(controls, prompt, values)
                self._refuse_far_too_long(*map(controls.shown, texts))
                opens_thought = self._format.reply.is_opened_by(texts[0])
                asked, begun = map(controls.ids, texts)
                ids = asked + begun
        if not ids:
            raise BadOption("The prompt has no tokens for this model: write at least one word.")
        if len(ids) >= self._context:
            raise PromptTooLong(len(ids), self._context)
        return EncodedPrompt(ids, begun, opens_thought)

    def _spelled(self, token: int) -> bytes:
        name = self._tokenizer.convert_ids_to_tokens(token)
        # Decoded twice, because some tokenizers omit a space at the beginning of a text.
        once, twice = (
            str(self._tokenizer.decode([token] * times, clean_up_tokenization_spaces=False))
            for times in (1, 2)
        )
        return spelled_token(str(name), twice[len(once) :])

    def _drafted(self, text: str) -> tuple[int, ...]:
        """Encode a text to draft from, without tokens that lack weights, limited to the context's length."""
        if not text:
            return ()
        with panics_as_errors():
            written = self._controls.anew().written(text[: self._context * CHARACTERS_PER_TOKEN])
        return tuple(token for token in written[: self._context] if token < self._vocabulary)

    def _refuse_far_too_long(self, *texts: str) -> None:
        if (least := sum(map(self._fewest.of, texts))) >= self._context:
            raise PromptTooLong(least, self._context, is_least=True)

    def _texts(
        self, controls: ControlTokens, chat: Sequence[Message], values: TemplateValues
    ) -> tuple[str, str]:
        """Return the filled template that asks for a reply, and the begun reply; spelled control tokens are
        hidden."""
        hidden = tuple(_hidden_message(controls, message) for message in chat)
        is_begun = hidden[-1].role == "assistant" and not hidden[-1].calls
        asked = self._asked_text(controls, hidden[:-1] if is_begun else hidden, values)
        if not is_begun:
            return asked, ""
        return asked, begun_text(self._format.reply, chat[-1].content, asked, controls.hidden)

    def _asked_text(self, controls: ControlTokens, asked: tuple[Message, ...], values: TemplateValues) -> str:
        if not asked:
            raise BadOption("There is no question before the reply that is to be continued: write one first.")
        if not self._tokenizer.chat_template:  # the model continues a written dialogue
            lines = [f"{message.role.capitalize()}: {message.content}" for message in asked]
            return "\n".join([*lines, "Assistant:"])
        variables = self._variables(controls, values)
        if system := self._format.mode(values.thinking.level).system:
            asked = (*asked, Message("system", system))
        try:
            template = self._tokenizer.get_chat_template(tools=variables.get("tools"))
            tokens = {**self._tokenizer.special_tokens_map, **variables}
            return self._fill(template, fitted(asked, self._format), tokens, self._format)
        except SandboxRefusal as error:
            raise BadOption(
                f"The model's chat template refuses this chat ({controls.shown(str(error))}): start a new chat, "
                "or send the text without a template (--raw)."
            ) from error

    def _variables(self, controls: ControlTokens, values: TemplateValues) -> dict[str, Any]:
        """Return the variables for the template. A request's variables replace those of the level of thinking."""
        mode = self._format.mode(values.thinking.level)
        variables = dict(parse_json(mode.values))
        if values.thinking.budget and mode.level != "off":
            variables["thinking_budget"] = values.thinking.budget
        variables |= parse_json(values.variables or "{}")
        if values.tools:
            variables["tools"] = parse_json(values.tools)
        return {name: _hidden_values(controls, value) for name, value in variables.items()}


def fitted(chat: Sequence[Message], chat_format: ChatFormat) -> list[Message]:
    """Return the messages in an order and in roles that the template accepts.

    System messages are joined into one at the beginning. A chat of system messages alone becomes a message of the
    user if the template refuses such a chat. Calls that the template omits are written into the texts; thoughts are
    taken out of them. An example for Gemma 2, which takes no system message:

        system: Be brief.  user: Hi  user: Who are you?    ->    user: Be brief.\\n\\nHi\\n\\nWho are you?
    """
    system = "\n\n".join(one.content for one in chat if one.role == "system" and one.content)
    found = [_thought_apart(one, chat_format) for one in chat if one.role != "system"]
    if (form := chat_format.reply.calls).omits_calls:
        for at, one in enumerate(found):
            if one.calls:
                calls = form.written((call.name, call.arguments) for call in one.calls)
                found[at] = replace(one, content=one.content + calls, calls=())
    if not found:
        return [Message("system" if chat_format.takes_system_alone else "user", system)]
    if found[0].role != "user" and not chat_format.takes_assistant_first:
        found = [Message("user", ""), *found]
    if system and chat_format.takes_system:
        found = [Message("system", system), *found]
    elif system and found[0].role == "user":
        found[0] = replace(found[0], content=f"{system}\n\n{found[0].content}".strip())
    elif system:
        found = [Message("user", system), *found]
    return found if chat_format.takes_user_runs else _alternating(found)


def _thought_apart(message: Message, chat_format: ChatFormat) -> Message:
    """Move a thought between <think> tags out of the text if the template marks thoughts in another way."""
    is_known = chat_format.reply.thought_opening in ("", OPENING) and not chat_format.takes_thought_part
    thought, closing, answer = message.content.removeprefix(OPENING).partition(CLOSING)
    is_thought = message.role == "assistant" and message.content.startswith(OPENING) and closing
    if is_known or message.thought or not is_thought:
        return message
    return replace(message, thought=thought.strip("\n"), content=answer.lstrip("\n"))


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Join adjacent messages of the user, and adjacent messages of the assistant without tool calls.

    NO_ANSWER replaces an empty answer, and is inserted as an answer between a tool's result and a question."""
    found = list[Message]()
    for (role, has_calls), group in groupby(messages, lambda one: (one.role, bool(one.calls))):
        together = list(group)
        if role in ("user", "assistant") and not has_calls:
            text = "\n\n".join(one.content for one in together if one.content)
            together = [replace(together[0], content=text or NO_ANSWER * (role == "assistant"))]
        if role == "user" and found and found[-1].role == "tool":
            found.append(Message("assistant", NO_ANSWER))
        found += together
    return found


def _hidden_message(controls: ControlTokens, message: Message) -> Message:
    """Hide the control tokens that a message spells, also escaped ones in the JSON arguments of its calls."""
    content = controls.hidden(message.content)
    if not message.calls and not message.name and not message.thought:
        return message if content is message.content else replace(message, content=content)
    calls = []
    for call in message.calls:
        try:
            arguments = json_text(_hidden_values(controls, parse_json(call.arguments)))
        except ValueError:
            arguments = controls.hidden(call.arguments)
        calls.append(replace(call, name=controls.hidden(call.name), arguments=arguments))
    name, thought = controls.hidden(message.name), controls.hidden(message.thought)
    return replace(message, content=content, calls=tuple(calls), name=name, thought=thought)


def _hidden_values(controls: ControlTokens, value: Any) -> Any:
    match value:
        case str():
            return controls.hidden(value)
        case list():
            return [_hidden_values(controls, one) for one in value]
        case dict():
            return {controls.hidden(key): _hidden_values(controls, one) for key, one in value.items()}
    return value
