"""Reads the text of documents, in a child process unless they are plain text."""
