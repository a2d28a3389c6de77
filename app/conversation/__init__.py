"""Replies from end to end: prompt, decoding, recording, and event logs that any number of readers follow."""

from app.chats import ChatStores, is_private
from app.conversation.context_window import ChatTooLong, ContextFit
from app.conversation.conversations import Conversations, StartedReply, StillWriting
from app.conversation.engine_protocol import ReplyEngine, TokenReader
from app.conversation.reply import Reply
from app.conversation.reply_state import ReplyState, fold
from app.conversation.turn import (
    Continuation,
    NewChat,
    NewQuestion,
    Overflow,
    Regeneration,
    ReplySettings,
    Turn,
)

__all__ = [
    "ChatStores",
    "ChatTooLong",
    "ContextFit",
    "Continuation",
    "Conversations",
    "NewChat",
    "NewQuestion",
    "Overflow",
    "Regeneration",
    "Reply",
    "ReplyEngine",
    "ReplySettings",
    "ReplyState",
    "StartedReply",
    "StillWriting",
    "TokenReader",
    "Turn",
    "fold",
    "is_private",
]
