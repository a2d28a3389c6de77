"""Chats in a SQLite database: message trees, full-text search, export and import."""

from app.chats.chat_stores import ChatStores, is_private
from app.chats.chats import Chats

__all__ = ["ChatStores", "Chats", "is_private"]
