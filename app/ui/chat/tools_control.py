"""The user's decisions about tools: which servers' tools a chat may use, and which calls are made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.conversation import Permission
from app.errors import AppError, ToolFailed
from app.ui.chat.chat_documents import ToolChoice
from app.ui.chat.chat_settings import change_settings, settings_of, switched
from app.ui.chat.state import ChatState
from app.ui.frame.services import Services
from app.values.display_text import counted
from app.values.messages import Message
from app.values.tools import ServerText

PERMISSIONS: Mapping[str, Permission] = {"allow-once": "once", "allow-chat": "chat", "refuse-call": "refuse"}
"""The buttons of a call that waits for the user, with the answer that each of them gives."""
TOOLS_NOT_SUPPORTED = (
    "This model's chat template does not support tools. They are described in the system prompt instead, "
    "which smaller models often do not follow."
)
DESCRIBED = "The tools are described in the system prompt, which smaller models often do not follow."
"""The note for a model on a server, whose template is not known."""
GONE = "This call no longer waits for an answer."


def answer_call(services: Services, state: ChatState, call: str, permission: Permission) -> None:
    """Allow or refuse a call that waits for the user. Raises AppError if it no longer waits."""
    calls = state.reply.state.calls if state.reply else ()
    waiting = next((one for one in calls if one.id == call and one.state == "asked"), None)
    if waiting is None:
        raise AppError(GONE)
    services.conversations.tools.permissions.answer(waiting, permission)


def choose_tools(services: Services, state: ChatState, server: str) -> None:
    """Turn a server's tools on or off for the chat. A server that is turned on is started."""
    chat = state.version.chat
    change_settings(services, state, chat, lambda now: replace(now, tools=switched(now.tools, server)))
    services.conversations.tools.start(settings_of(services, state).tools)


def read_text(services: Services, server: str, name: str) -> tuple[ServerText, str]:
    """Return a resource or a prompt of a server with its text. Raises ToolFailed."""
    servers = services.conversations.tools.servers
    offered = next((one for one in servers.status(server).texts if name == (one.uri or one.name)), None)
    if offered is None:
        raise ToolFailed(f"{server} does not offer {name} any more: restart it under Settings → Tools.")
    return offered, servers.text_of(offered)


def tool_choices(services: Services, chosen: Sequence[str]) -> list[ToolChoice]:
    """Return the tools that a chat may use, and each chosen server that is gone, so that it can be deselected."""
    tools = services.conversations.tools
    names = (*tools.names(), *(one for one in chosen if one not in tools.names()))
    return [
        (name, tools.note(name), True, tools.servers.status(name).texts)
        if name in chosen
        else (name, "", False, ())
        for name in names
    ]


def tools_note(services: Services, chosen: Sequence[str]) -> str:
    """Say how many tokens the chosen tools take in each prompt, and whether the chat template lacks support for
    tools; "" without tools or a loaded model."""
    tools, model = services.conversations.tools, services.engine.status().model
    offered = tools.offered(chosen)
    if not offered or model is None:
        return ""
    use, reader, question = tools.use(offered, model), services.engine.reader(), Message("user", "?")
    messages = (Message("system", use.prompt), question) if use.prompt else (question,)
    tokens = reader.count(messages, tools=use.native) - reader.count((question,))
    cost = f"These tools take {counted(tokens, 'token')} of each prompt." if tokens else ""
    how = DESCRIBED if model.server else TOOLS_NOT_SUPPORTED
    return f"{cost} {'' if model.chat_format.reply.calls.shows_tools else how}".strip()
