"""What a session is given where nobody watches its replies, as in measurements."""


class NeverStops:
    """Nobody stops a reply."""

    is_stopping = False


def silent(_what: str, _done: int, _total: int) -> None:
    """Nobody looks how far it is."""
