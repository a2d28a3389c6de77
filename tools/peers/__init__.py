"""Our decoders beside transformers' own generate, in one process, in turn."""
