"""The view of documents: collections, how far what is in them is, and a text with a passage lit up."""
