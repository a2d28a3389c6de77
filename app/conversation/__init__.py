"""Turns from end to end: prompt, decoding, recording, and event logs that any number of readers follow."""

from app.conversation.chatbook import Chatbook, is_private
from app.conversation.context import ChatTooLong, Fit
from app.conversation.conversations import Conversations, Decodes, StillWriting, Writing
from app.conversation.planning import Asked, Overflow
from app.conversation.reading import Reads
from app.conversation.reply import Reply
from app.conversation.reply_state import ReplyState, fold

__all__ = [
    "Asked",
    "ChatTooLong",
    "Chatbook",
    "Conversations",
    "Decodes",
    "Fit",
    "Overflow",
    "Reads",
    "Reply",
    "ReplyState",
    "StillWriting",
    "Writing",
    "fold",
    "is_private",
]
