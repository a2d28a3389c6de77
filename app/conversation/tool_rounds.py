"""A reply that calls tools is written in rounds. All rounds share one event log and one message, and stop together.

    round 1    "Let me look.<tool_call>…</tool_call>"    the user allows the call, and the tool answers
    round 2    "It is 12 degrees in Rome."               no call, so the reply is complete

Only the user's answers in `ToolPermissions` allow a call; the result of a tool never does.
"""

import threading
from dataclasses import dataclass, replace
from queue import SimpleQueue

from app.conversation.chat_tools import ChatTools
from app.conversation.engine_protocol import ModelEngine
from app.conversation.prompt_builder import PreparedReply, PromptBuilder, reply_reserve
from app.conversation.prompt_sources import RetrievedContext
from app.conversation.reply import Reply
from app.conversation.reply_parsing import Delta, ParsedReply, TextDelta
from app.conversation.tool_use import ToolUse, with_rounds
from app.conversation.turn import TurnContext
from app.errors import AppError, ArgumentsRefused, ToolFailed
from app.tools.mcp_servers import arguments_object
from app.values.chat import MessageContent
from app.values.chat_format import first_marker
from app.values.logits import LogitsSettings
from app.values.messages import Called, Event, Failed, Finished, Loading, Message, Piece, Request
from app.values.reply_statistics import Statistics
from app.values.tools import CalledTool, CallState, Tool

MOST_ROUNDS = 10
"""Maximum number of rounds with calls in a reply. After them no tools are offered."""
SUMMED = ("tokens", "steps", "hits", "covered", "rows", "seconds", "cost")
LOOK_SECONDS = 0.2
"""Seconds between two checks of whether the reply is to stop."""
STARTING = "Starting the chat's tools"
REFUSED = "The user refused this call. Do not repeat it."
ENOUGH = "No further calls are possible in this reply. Answer with what is known."
BUG = "The reply ended because of a bug in Foresight. Regenerate it, or turn the chat's tools off."
CUT = "\n[The result was cut here, because the rest does not fit into the model's context.]"


class _RoundLog:
    """Receives a round's events, and passes all but the end to the reply, with the statistics of all rounds."""

    def __init__(self, reply: Reply, use: ToolUse, before: MessageContent, statistics: Statistics) -> None:
        """Continue this reply. Its text after the last call is the beginning of the round's text."""
        self._begin = before.calls[-1].end if before.calls else 0
        self.text = before.text[self._begin :]
        self.statistics = statistics
        self._reply, self._before, self._earlier = reply, before, statistics
        self._parser = use.parser()
        self._parsed = ParsedReply()
        self._leading_text = ""  # the answer before the first call
        self._is_announced = False
        self.ends: SimpleQueue[Finished | Failed] = SimpleQueue()
        self._take(self._parser.push(self.text))

    @property
    def is_stopping(self) -> bool:
        return self._reply.is_stopping

    def append(self, event: Event) -> None:
        match event:
            case Piece():
                self.text += event.text
                self._take(self._parser.push(event.text))
                self.statistics = joined(self._earlier, event.statistics)
                self._announce()
                self._reply.append(replace(event, statistics=self.statistics))
            case Finished():
                self._take(self._parser.flush(event.reason != "eos"))
                self.statistics = joined(self._earlier, event.statistics)
                self.ends.put(replace(event, statistics=self.statistics))
            case Failed():
                self.ends.put(event)
            case _:
                self._reply.append(event)

    @property
    def whole_text(self) -> str:
        return self._before.text[: self._begin] + self.text

    def calls(self, tools: dict[str, Tool]) -> list[CalledTool]:
        """Return the calls of this round, which must have ended."""
        found = list[CalledTool]()
        for call in self._parsed.calls:
            tool = tools.get(call.name, Tool("", call.name))
            found.append(
                CalledTool(
                    call.id, tool.server, call.name, call.arguments or "{}", self._begin + self._start(),
                    self._begin + len(self.text), asks_always=tool.asks_always,
                )
            )  # fmt: skip
        return found

    def _take(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta, TextDelta) and not self._parsed.calls:
                self._leading_text += delta.text
            self._parsed.add(delta)

    def _announce(self) -> None:
        """Report the beginning of a call once, so that the page hides its text.

        If the text only mentions a call, the report at the end of the round shows the text again."""
        if not self._is_announced:
            has_tag = first_marker(self.text[self._parser.thought_end :], self._parser.openings)[1]
            if has_tag or self._parsed.calls:
                self._is_announced = True
                call = CalledTool("", "", "", "{}", self._begin + self._start(), 0, "writing")
                self._reply.append(Called((*self._before.calls, call)))

    def _start(self) -> int:
        """Return where the first call begins in the round's text, after the answer before this call."""
        at = self.text.find(self._leading_text, self._parser.thought_end)
        return at + len(self._leading_text) if at >= 0 else self._parser.thought_end


@dataclass(slots=True)
class _Writing:
    chat: int
    context: TurnContext
    prepared: PreparedReply
    reply: Reply
    tools: dict[str, Tool]
    content: MessageContent
    statistics: Statistics
    forced: str = ""
    """The tool whose arguments were refused. The next round has to call it with arguments that match its schema."""

    @property
    def asked(self) -> tuple[Message, ...]:
        prompt = self.prepared.prompt
        return prompt[:-1] if prompt[-1].role == "assistant" else prompt

    def change(self, call: CalledTool) -> None:
        calls = tuple(call if one.id == call.id else one for one in self.content.calls)
        self.content = replace(self.content, calls=calls)
        self.reply.append(Called(calls))


class ToolRounds:
    """Writes the replies of chats that use tools."""

    def __init__(self, engine: ModelEngine, tools: ChatTools, prompts: PromptBuilder) -> None:
        self._engine = engine
        self._tools = tools
        self._prompts = prompts

    def write(
        self,
        chat: int,
        prepared: PreparedReply,
        context: TurnContext,
        retrieved: RetrievedContext,
        reply: Reply,
    ) -> None:
        """Write a reply to its end. An error ends the reply, which reports it."""
        problem = BUG
        try:
            self._load(prepared, reply)  # because the prompt depends on the model's template
            reply.append(Loading(STARTING))
            tools = self._tools.offered(context.chat_settings.tools, True, lambda: reply.is_stopping)
            context = replace(context, tools=self._tools.use(tools, self._engine.status().model))
            prepared = self._prompts.prepare(context, retrieved, prepared.settings)
            content = context.written or MessageContent()
            self._rounds(_Writing(chat, context, prepared, reply, tools, content, Statistics()))
            problem = ""
        except AppError as error:
            problem = str(error)
        finally:  # without an end, the reply would count as being written forever
            if problem and not reply.is_done:
                reply.append(Failed(problem))

    def _load(self, prepared: PreparedReply, reply: Reply) -> None:
        """Load the reply's model unless it is loaded. Another model may have been loaded while a call waited.

        Does nothing if a server's model is chosen, because loading would undo this choice."""
        model, known = prepared.settings.model, self._engine.status().model
        if not model.server and not (known and (known.server or known.name == model.name)):
            loaded = threading.Event()
            self._engine.load(model, lambda _is_loaded: loaded.set())
            while not loaded.wait(LOOK_SECONDS) and not reply.is_stopping:
                pass

    def _rounds(self, writing: _Writing) -> None:
        if not self._answered(writing):
            return writing.reply.append(Failed("Stopped."))
        for number in range(MOST_ROUNDS + 1):
            use = writing.context.tools
            forced = tuple(one for one in use.offered if one.name == writing.forced)
            use = replace(use, offered=()) if number == MOST_ROUNDS else replace(use, forced=forced)
            log = _RoundLog(writing.reply, use, writing.content, writing.statistics)
            self._engine.submit(self._request(writing, use), log)
            end = log.ends.get()
            calls = log.calls(writing.tools)
            writing.statistics = log.statistics
            writing.content = replace(
                writing.content, text=log.whole_text, calls=(*writing.content.calls, *calls)
            )
            writing.reply.append(Called(writing.content.calls))
            if isinstance(end, Failed) or not calls or end.reason in ("stopped", "context"):
                return writing.reply.append(end)
            if not self._answered(writing):
                return writing.reply.append(replace(end, reason="stopped"))
        return None

    def _request(self, writing: _Writing, use: ToolUse) -> Request:
        prepared, content = writing.prepared, writing.content
        begun = (Message("assistant", content.text, called=content.calls),) if content.text else ()
        prompt = with_rounds((*writing.asked, *begun), use.calls)
        if writing.tools and not use.offered:
            prompt = (*prompt[:-1], replace(prompt[-1], content=f"{prompt[-1].content}\n\n{ENOUGH}"))
        writing.forced = ""
        return Request(
            prepared.settings.model, prompt, prepared.settings.options, prepared.documents,
            logits=LogitsSettings(grammar=replace(use, form=prepared.grammar).grammar),
            tools=use.native, control=writing.context.tools.control,
        )  # fmt: skip

    def _answered(self, writing: _Writing) -> bool:
        """Ask the user about each open call in turn, and make the allowed calls. Returns False after a stop."""
        for call in writing.content.calls:
            if call.state in ("asked", "running"):
                self._answer(writing, call)
                if writing.reply.is_stopping:
                    return False
        return not writing.reply.is_stopping

    def _answer(self, writing: _Writing, call: CalledTool) -> None:
        """Check a call, wait for the user's permission, make the call, and keep its result."""
        try:
            tool = writing.tools.get(call.name)
            if tool is None:
                raise ToolFailed(f"There is no tool {call.name}. The tools are: {', '.join(writing.tools)}.")
            arguments_object(call.arguments)  # before the user is asked
            if not self._permitted(writing, call):
                return
            writing.change(replace(call, state="running"))
            settings, reply = writing.context.chat_settings, writing.reply
            result = self._tools.call(tool, call.arguments, settings, lambda: reply.is_stopping)
            state: CallState = "done"
        except AppError as error:
            result, state = str(error), "failed"
            writing.forced = call.name if isinstance(error, ArgumentsRefused) else ""
        result, tokens = self._fitted(writing, result)
        writing.change(replace(call, state=state, result=result, tokens=tokens))

    def _permitted(self, writing: _Writing, call: CalledTool) -> bool:
        """Wait for the user's answer to a call. Returns False if the call is refused or the reply is to stop.

        Raises ToolFailed if another server has the name of the server that the user was asked about."""
        permissions, answer, server = self._tools.permissions, None, self._tools.server(call.server)
        if permissions.is_allowed(writing.chat, server, call):
            return True
        writing.change(replace(call, state="asked"))
        while answer is None and not writing.reply.is_stopping:
            answer = permissions.wait(call, LOOK_SECONDS)
        if answer == "refuse":
            writing.change(replace(call, state="refused", result=REFUSED))
        elif self._tools.server(call.server) != server:
            raise ToolFailed(f"{call.server} was changed before the call was allowed. Call it again.")
        elif answer == "chat":
            permissions.allow(writing.chat, server, call)
        return answer in ("once", "chat")

    def _fitted(self, writing: _Writing, result: str) -> tuple[str, int]:
        """Cut a result to leave room for a reply. Returns the text and its tokens, 0 if the context is unknown."""
        self._load(writing.prepared, writing.reply)
        reader, settings = self._engine.reader(), writing.prepared.settings
        if not reader.context:
            return result, 0
        use = writing.context.tools
        chat = with_rounds((*writing.asked, Message("assistant", writing.content.text)), use.calls)
        taken = reader.count(chat, settings.options.thinking, use.native)
        taken += sum(call.tokens for call in writing.content.calls)
        room = reader.context - taken - reply_reserve(settings.options.max_new_tokens, reader.context)
        alone = reader.count((Message("user", ""),))
        kept, tokens = result, 0
        while (tokens := reader.count((Message("user", kept),)) - alone) > room and kept != CUT:
            share = max(0, room) / tokens * 0.9
            kept = result[: int(len(kept.removesuffix(CUT)) * share)] + CUT
        return kept, tokens


def joined(earlier: Statistics, later: Statistics) -> Statistics:
    """Return the statistics of two rounds as those of one reply.

    The prompt's numbers are the later round's; the time to the first token is the earlier round's, if it has
    one."""
    sums = {name: getattr(earlier, name) + getattr(later, name) for name in SUMMED}
    first = earlier.time_to_first_token or later.time_to_first_token
    return replace(later, **sums, time_to_first_token=first)
