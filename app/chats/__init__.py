"""Chats in a database: trees of messages, found by their words, written out and read in again."""

from app.chats.chats import Chats
from app.titles import title_of

__all__ = ["Chats", "title_of"]
