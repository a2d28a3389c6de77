"""The Documents view: collections, the documents in them, and the document panel, which highlights a passage."""
