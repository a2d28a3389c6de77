"""Foresight: a desktop chat app whose engine runs lookahead decoding."""

__version__ = "0.1.0"
