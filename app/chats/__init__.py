"""Chats in a SQLite database: message trees, full-text search, export and import."""
