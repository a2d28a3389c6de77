"""One turn from end to end: prompt, decoding, and the event log that any number of readers follow."""

from app.conversation.conversation import Conversation, Decodes, Turn
from app.conversation.reply import Reply
from app.conversation.reply_state import ReplyState, fold

__all__ = ["Conversation", "Decodes", "Reply", "ReplyState", "Turn", "fold"]
