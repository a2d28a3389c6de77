"""Numbers of things in words."""


def counted(count: int, one: str) -> str:
    """ "1 document", "2,000 documents"."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"
