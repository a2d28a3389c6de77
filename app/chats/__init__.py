"""Chats in a SQLite database: message trees, full-text search, export and import."""

from app.chats.chats import Chats, ChatStores, is_private

__all__ = ["ChatStores", "Chats", "is_private"]
