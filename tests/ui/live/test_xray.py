"""The X-ray's picture of a step."""

from collections.abc import Sequence

from app.ui.live.step_history import TracedStep
from app.ui.live.tokens import ORIGINS
from app.ui.live.xray import summary, texts_of, window_rows, xray_html
from tests.ui.live.traces import ESSAY, PLAIN, WORDS, history_of, texts

TWO = history_of(ESSAY, PLAIN)


def picture(number: int, is_live: bool = False) -> str:
    return xray_html(TWO, number, is_live, texts)


def test_the_text_goes_up_to_the_step_and_lights_what_it_wrote() -> None:
    first, second = (picture(number) for number in (1, 2))
    assert '<span>…seven</span><mark class="window" title="window">eight</mark><mark class="model"' in first
    assert "<span>…eight four</span><mark" in second


def test_a_step_is_told_in_a_sentence() -> None:
    sentence = (
        "This step refined 8 guesses of the window and checked 4 guesses of the draft tree: 1 accepted, "
    )
    assert summary(ESSAY) == sentence
    assert f'<p class="facts">{sentence}<b>2 tokens written</b>.</p>' in picture(1)
    assert summary(PLAIN).endswith("no guesses of the draft tree: 0 accepted, ")
    assert "<b>1 token written</b>" in picture(2)


def test_guesses_of_the_same_place_stand_below_each_other() -> None:
    rows = window_rows(ESSAY.trace.window, [7, 8, 4, 11], 3, WORDS)
    assert [label for label, _ in rows] == ["newest", "", "oldest", "written"]
    assert [[cell.text for cell in cells] for _, cells in rows] == [
        ["", "", "t3", "t2", "t1"],
        ["", "eight", "·four", "t1", ""],
        ["seven", "eight", "nine⏎", "", ""],
        ["seven", "eight", "·four", "eleven", ""],
    ]


def test_guesses_that_came_true_are_highlighted() -> None:
    *guesses, (_, written) = window_rows(ESSAY.trace.window, [7, 8, 4, 11], 3, WORDS)
    true = [cell.text for _, cells in guesses for cell in cells if cell.kind == "true"]
    assert true == ["eight", "·four", "eight"]
    assert [cell.kind for cell in written] == ["fresh", "fresh", "fresh", "later", ""]


def test_every_token_is_read_in_one_call() -> None:
    calls: list[Sequence[int]] = []

    def counting(ids: Sequence[int]) -> tuple[str, ...]:
        calls.append(ids)
        return texts(ids)

    assert texts_of([ESSAY, TracedStep(PLAIN.trace, (11,))], [5], counting)[11] == "eleven"
    assert len(calls) == 1


def test_nothing_that_a_token_says_is_markup() -> None:
    html = picture(1)
    assert "&lt;i&gt;&amp;" in html
    assert "<i>" not in html


def test_the_legend_has_the_origins_that_occur() -> None:
    occurring = [origin for origin in ORIGINS if f'<li class="{origin}"' in picture(2)]
    assert occurring == ["model", "successor", "window", "prompt", "output"]
