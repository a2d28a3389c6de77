"""What was typed here is told from what was written elsewhere."""

from app.ui.chat.echo import Echo


def sent(*texts: str) -> Echo:
    echo = Echo()
    for text in texts:
        echo.send(text)
    return echo


def test_what_was_sent_comes_back_as_an_echo_however_late() -> None:
    echo = sent("B", "Be", "Be k")
    assert echo.is_of("Be") and echo.is_of("Be") and echo.is_of("Be k")


def test_what_nobody_sent_here_is_somebody_elses() -> None:
    assert not sent("B").is_of("Hush")
    assert not Echo().is_of("")


def test_what_is_past_is_no_echo_any_more() -> None:
    echo = sent("B", "Be", "Be k")
    assert echo.is_of("Be k")
    assert not echo.is_of("Be"), "somebody took a word away"
    assert not echo.is_of("Be k")
