"""Summaries that the model writes of a chat's oldest messages, when the chat is too long.

The model is asked for the summary in the chat itself, and later prompts have this exchange in place of the
messages."""

from bisect import bisect_left
from dataclasses import replace

from app.conversation.engine_protocol import ReplyEngine
from app.conversation.prompt_builder import PromptBuilder, summary_tokens, with_system
from app.conversation.reply import Reply, ReplySoFar
from app.conversation.thought_parsing import split_thought
from app.conversation.tool_use import with_rounds
from app.conversation.turn import Messages, ReplySettings
from app.errors import AppError, ReplyFailed
from app.values.chat import SUMMARY_REQUEST, ChatSettings
from app.values.chat_format import HERMES, Thinking
from app.values.messages import Loading, Message, Request, Sampling

LOOK_SECONDS = 0.05
LEAST_HALF = 50
"""A message is divided only if each half has at least this many characters."""
REQUEST = Message("user", SUMMARY_REQUEST)
SUMMARISING = "Summarising the old messages"
STOPPED = "Stopped before the old messages were summarised. Regenerate the reply, or leave them out."


class SummaryWriter:
    def __init__(self, engine: ReplyEngine, prompts: PromptBuilder) -> None:
        self._engine = engine
        self._prompts = prompts

    def write(self, chat: ChatSettings, oldest: Messages, settings: ReplySettings, reply: Reply) -> str:
        """Returns a summary of the oldest turns, and reports the progress to `reply`.

        Turns that exceed the context are summarised in steps: first the oldest turns, then their summary with the
        next turns. The longest message of a turn that is too long is divided. Raises ReplyFailed if the model
        writes no summary or the user stops, and AppError if the context is too short."""
        tokens = summary_tokens(self._engine.reader().context)
        options = replace(
            settings.options, sampling=Sampling(), thinking=Thinking("off"), max_new_tokens=tokens
        )
        settings = replace(settings, options=replace(options, stop=()))
        summary, oldest = "", with_rounds(oldest, HERMES)
        while oldest:
            before = (REQUEST, Message("assistant", summary)) if summary else ()
            ends = [at for at in range(1, len(oldest)) if oldest[at].role == "user"] + [len(oldest)]
            if not (turns := self._most_turns(chat, before, oldest, ends, settings)):
                oldest = (*_halved(oldest[: ends[0]]), *oldest[ends[0] :])
                continue
            taken = ends[turns - 1]
            prompt = with_system(chat, (*before, *oldest[:taken], REQUEST))
            summary, oldest = self._ask(prompt, settings, reply), oldest[taken:]
        return summary

    def _most_turns(
        self, chat: ChatSettings, before: Messages, oldest: Messages, ends: list[int], settings: ReplySettings
    ) -> int:
        """Returns the number of turns that can be summarised at once; 0 if the first turn is too long."""

        def is_too_long(end: int) -> bool:
            fit = self._prompts.fit(chat, (*before, *oldest[:end], REQUEST), settings.options)
            return fit is not None and not fit.fits

        return bisect_left(ends, True, key=is_too_long)

    def _ask(self, prompt: Messages, settings: ReplySettings, reply: Reply) -> str:
        asked, written, seen = Reply(), ReplySoFar(), 0
        self._engine.submit(Request(settings.model, prompt, settings.options), asked)
        while not written.is_done:
            if reply.is_stopping:
                asked.stop()
            events = asked.wait(seen, LOOK_SECONDS)
            seen += len(events)
            written.take(events)
            if events:
                reply.append(Loading(SUMMARISING, len(written.token_ids), settings.options.max_new_tokens))
        if reply.is_stopping:
            raise ReplyFailed(STOPPED)
        if written.phase == "failed":
            raise ReplyFailed(written.note)
        if summary := split_thought(written.text).answer.strip():
            return summary
        raise ReplyFailed(
            "The model wrote no summary. Regenerate the reply, and leave out the oldest messages."
        )


def _halved(turn: Messages) -> Messages:
    """Returns a turn with its longest message divided in halves. Raises AppError if the halves would be too short.

    A message between the halves keeps the roles alternating, as many chat templates require."""
    at = max(range(len(turn)), key=lambda at: len(turn[at].content))
    longest = turn[at]
    middle = len(longest.content) // 2
    if middle < LEAST_HALF:
        raise AppError("The model's context is too short for a summary. Load a model with a longer context.")
    first, second = (
        replace(longest, content=half) for half in (longest.content[:middle], longest.content[middle:])
    )
    between = Message("user" if longest.role == "assistant" else "assistant", "Go on.")
    return (*turn[:at], first, between, second, *turn[at + 1 :])
