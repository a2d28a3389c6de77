"""The beginning of a message that is too long for the model."""

from app.conversation import Conversations
from app.values.chat import ChatSettings
from app.values.messages import Message, Options

CHARACTERS_PER_TOKEN = 16
"""More than a token has on average in any text."""
LEAST_SHARE = 0.8
"""The text ends at a blank if one is in the last fifth of what fits."""


def beginning_that_fits(
    conversations: Conversations, settings: ChatSettings, text: str, options: Options
) -> str:
    """Return as much of a text as fits the context with a reply behind it; "" if nothing does."""
    whole = conversations.fit(settings, (Message("user", text[:1]),), options)
    if whole is None:
        return text

    def fits(length: int) -> bool:
        fit = conversations.fit(settings, (Message("user", text[:length]),), options)
        return fit is None or fit.fits

    low, high = 0, min(len(text), whole.context * CHARACTERS_PER_TOKEN) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    blank = max(text.rfind(" ", 0, low), text.rfind("\n", 0, low))
    return text[: blank if low < len(text) and blank > low * LEAST_SHARE else low]
