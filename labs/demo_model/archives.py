"""Reads texts from tar archives."""

import tarfile
from collections.abc import Iterator


def texts_in(archive: tarfile.TarFile, endings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file in the archive whose name has one of these endings."""
    for member in archive:
        file = archive.extractfile(member) if member.name.endswith(endings) else None
        if file is not None:
            yield member.name, file.read().decode("utf-8", "replace")
