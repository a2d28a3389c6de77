"""Documents: texts that are pasted or read from files, cut into passages that are found by words and by meaning.

Imports nothing, because each process that reads a file imports this package."""
