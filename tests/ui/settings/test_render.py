"""What the settings say that a decoder costs."""

from app.ui.settings.controls import cost_html
from app.values.messages import Decoding
from app.values.model import RowPrice

PRICE = RowPrice(logits=1_000_000, cache=2_000)
W5N4G5 = Decoding("lookahead", window=5, ngram=4, guesses=5)


def test_rows_and_memory_of_lookahead_are_told() -> None:
    html = cost_html(W5N4G5, PRICE, "demo")
    assert "30 rows per step" in html and "16 tree + 14 window, 21 rows with logits" in html
    assert "21 MB for logits and 60 kB for keys and values" in html


def test_plain_is_one_row() -> None:
    assert "1 row per step" in cost_html(Decoding("plain"), PRICE, "demo")


def test_auto_promises_no_number() -> None:
    html = cost_html(Decoding("auto"), PRICE, "demo")
    assert "as many rows as are fastest" in html and "per step</b>" not in html


def test_without_a_model_no_memory_is_told() -> None:
    assert "Load a model to see" in cost_html(W5N4G5, None, "")


def test_a_models_name_cannot_write_html() -> None:
    assert "<img" not in cost_html(W5N4G5, PRICE, "<img src=x>")


def test_the_page_can_tell_which_decoder_it_is_about() -> None:
    assert 'data-decoder="jacobi"' in cost_html(Decoding("jacobi"), None, "")
