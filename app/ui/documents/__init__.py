"""The Documents view: collections, the documents in them, and a reader that highlights a passage."""
