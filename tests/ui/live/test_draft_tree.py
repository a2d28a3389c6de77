"""The draft tree: where its nodes stand, and how it is drawn."""

from html import unescape
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from app.ui.live.draft_tree import draft_tree_svg, placed
from app.ui.live.step_history import TracedStep
from app.values.trace import StepTrace
from tests.ui.live.traces import ESSAY, PLAIN, WORDS


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


def test_a_plain_step_is_the_current_token_and_the_models_own() -> None:
    assert standing(PLAIN) == [(0, 0, 4, True), (0, 1, 11, True)]


def test_a_reply_that_ends_with_a_drafted_token_shows_it_as_accepted() -> None:
    # Cut by the token limit behind 8: its row was not kept, and no token of the model's own follows.
    cut = TracedStep(StepTrace((7, 8, 9), (-1, 0, 1), ("model", "window", "window"), (8, 9, 1), (0,)), (8,))
    assert standing(cut) == [(0, 0, 7, True), (0, 1, 8, True), (0, 2, 9, False)]


def test_a_trace_without_rows_has_no_nodes() -> None:
    assert placed(TracedStep(StepTrace(), (8,))) == []
    assert draft_tree_svg(TracedStep(StepTrace(), (8,)), WORDS).startswith("<svg")


def test_a_chain_of_any_length_can_be_drawn() -> None:
    rows = 3000
    chain = StepTrace((7,) * rows, tuple(range(-1, rows - 1)), ("output",) * rows, (8,) * rows, (0,))
    assert placed(TracedStep(chain, (8,)))[-1].depth == rows - 1


@given(st.lists(st.integers(min_value=0, max_value=63), max_size=63))
def test_every_row_stands_somewhere_of_its_own(choices: list[int]) -> None:
    parents = [-1, *(choice % (row + 1) for row, choice in enumerate(choices))]
    rows = len(parents)
    trace = StepTrace((7,) * rows, tuple(parents), ("model",) * rows, (8,) * rows, (0,))
    nodes = placed(TracedStep(trace, (1,)))
    assert sorted(one.node.row for one in nodes) == [-1, *range(rows)]
    assert len({(one.line, one.depth) for one in nodes}) == len(nodes)


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


def test_the_break_says_what_the_model_chose() -> None:
    html = unescape(draft_tree_svg(ESSAY, WORDS))
    assert "·four</text><text" in html
    assert "chosen instead" in html
    assert "“nine⏎”: drafted from the prompt; rejected, the model chose “·four”" in html


def test_where_drafts_ended_the_model_itself_went_on() -> None:
    html = draft_tree_svg(PLAIN, WORDS)
    assert "the model itself" in html
    assert "chosen instead" not in html


def test_the_picture_is_said_in_words() -> None:
    html = unescape(draft_tree_svg(ESSAY, WORDS))
    assert 'aria-label="Draft tree: 4 drafted, 1 accepted; written: “eight”, “·four”"' in html
