"""Starts replies, records them, and lets any number of pages follow their events."""

from app.chats.chats import ChatStores, is_private
from app.conversation.chat_tools import BUNDLED, ChatTools, Permission
from app.conversation.conversations import Conversations, StartedReply
from app.conversation.engine_protocol import ModelEngine, ReplyEngine
from app.conversation.message_queue import StillWriting
from app.conversation.prompt_builder import ChatTooLong, ContextFit
from app.conversation.reply import Reply, ReplySoFar, ReplyState
from app.conversation.turn import (
    Continuation,
    NewChat,
    NewQuestion,
    Overflow,
    Regeneration,
    ReplySettings,
    Turn,
)
from app.engine.text.token_counter import CachedTokenReader

__all__ = [
    "BUNDLED", "CachedTokenReader", "ChatStores", "ChatTooLong", "ChatTools", "ContextFit", "Continuation",
    "Conversations", "ModelEngine", "NewChat", "NewQuestion", "Overflow", "Permission", "Regeneration", "Reply",
    "ReplyEngine", "ReplySettings", "ReplySoFar", "ReplyState", "StartedReply", "StillWriting", "Turn",
    "is_private",
]  # fmt: skip
