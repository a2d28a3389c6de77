"""Downloads: a process for each, resumable to the byte, checked before anything counts as here."""
