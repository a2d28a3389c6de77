"""The app's icon as Windows and macOS want it: their own wrapping around the same PNG of 256 by 256."""

import struct

WHOLE = 256


def ico(png: bytes) -> bytes:
    """A Windows icon with one picture; a side of 256 is written as 0."""
    header = struct.pack("<HHH", 0, 1, 1)
    entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(png), len(header) + 16)
    return header + entry + png


def icns(png: bytes) -> bytes:
    """A macOS icon with one picture: `ic08` is 256 by 256."""
    chunk = b"ic08" + struct.pack(">I", len(png) + 8) + png
    return b"icns" + struct.pack(">I", len(chunk) + 8) + chunk
