"""The draft tree: where its nodes stand, and how it is drawn."""

from html import unescape
from xml.etree import ElementTree

from app.ui.live.draft_tree_picture import draft_tree_svg, placed
from app.ui.live.step_history import TracedStep
from app.values.reply_statistics import StepTrace
from tests.ui.live.traces import ESSAY, WORDS


def standing(step: TracedStep) -> list[tuple[int, int, int, bool]]:
    return [(one.line, one.depth, one.node.token, one.node.is_accepted) for one in placed(step)]


def test_the_accepted_path_is_one_line_at_the_top() -> None:
    assert standing(ESSAY) == [
        (0, 0, 7, True),
        (0, 1, 8, True),
        (0, 2, 4, True),
        (1, 2, 9, False),
        (2, 2, 6, False),
        (3, 1, 5, False),
    ]


def test_a_reply_that_ends_with_a_drafted_token_shows_it_as_accepted() -> None:
    # Cut by the token limit behind 8: its row was not kept, and no token of the model's own follows.
    cut = TracedStep(StepTrace((7, 8, 9), (-1, 0, 1), ("model", "window", "window"), (8, 9, 1), (0,)), (8,))
    assert standing(cut) == [(0, 0, 7, True), (0, 1, 8, True), (0, 2, 9, False)]


def test_a_chain_of_any_length_can_be_drawn() -> None:
    rows = 3000
    chain = StepTrace((7,) * rows, tuple(range(-1, rows - 1)), ("output",) * rows, (8,) * rows, (0,))
    assert placed(TracedStep(chain, (8,)))[-1].depth == rows - 1


def test_the_picture_is_well_formed_whatever_tokens_say() -> None:
    picture = ElementTree.fromstring(draft_tree_svg(ESSAY, WORDS))
    assert len(picture.findall("g")) == 6
    assert len(picture.findall("path")) == 5
    assert "<i>&" in "".join(picture.itertext())


def test_colours_say_who_proposed_and_a_class_says_what_was_accepted() -> None:
    html = draft_tree_svg(ESSAY, WORDS)
    assert 'class="node accepted window"' in html
    assert 'class="node rejected prompt"' in html
    assert 'class="node accepted root model"' in html


def test_the_picture_is_said_in_words() -> None:
    html = unescape(draft_tree_svg(ESSAY, WORDS))
    assert 'aria-label="Draft tree: 4 guessed, 1 accepted; written: “eight”, “·four”"' in html
