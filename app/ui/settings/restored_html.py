"""What is said after the defaults were restored."""


def restored_html() -> str:
    """The sentence, with the way back."""
    return (
        '<p class="restored" role="status">Defaults restored. '
        '<button type="button" class="act" data-do="undo">Undo</button></p>'
    )
