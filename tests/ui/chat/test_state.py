"""What was typed here is told from what was written elsewhere."""

from app.ui.chat.state import SentTexts


def sent(*texts: str) -> SentTexts:
    sent_texts = SentTexts()
    for text in texts:
        sent_texts.add(text)
    return sent_texts


def test_what_was_sent_comes_back_however_late() -> None:
    sent_texts = sent("B", "Be", "Be k")
    assert sent_texts.has("Be") and sent_texts.has("Be") and sent_texts.has("Be k")


def test_what_nobody_sent_here_is_somebody_elses() -> None:
    assert not sent("B").has("Hush")
    assert not SentTexts().has("")


def test_what_is_past_is_forgotten() -> None:
    sent_texts = sent("B", "Be", "Be k")
    assert sent_texts.has("Be k")
    assert not sent_texts.has("Be"), "somebody took a word away"
    assert not sent_texts.has("Be k")
