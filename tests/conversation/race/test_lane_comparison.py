"""A lane read piece by piece is the lane read at once."""

from app.conversation import Reply
from app.conversation.race.lane_comparison import LaneReader, read_lane
from app.values.messages import Finished, Piece, Statistics
from tests.fakes import DEMO, written
from tests.racing import AUTO

FIRST = Piece("Hel", (1,), ("model",), Statistics(time_to_first_token=0.1), (3,))
STEP = Piece("lo you", (2, 3), ("window", "model"), Statistics(tokens=2, steps=1, seconds=0.2,
             time_to_first_token=0.1), (2, 6))  # fmt: skip
END = Finished("eos", STEP.statistics, DEMO, "plain")


def test_a_lane_read_as_it_grows_is_the_lane_read_at_once() -> None:
    reply = Reply()
    reader = LaneReader(AUTO, reply)
    for event in (FIRST, STEP, END):
        before = reader.run
        reply.append(event)
        assert reader.read() is not before
        assert reader.read() is reader.run
    assert reader.run == read_lane(AUTO, written(FIRST, STEP, END))


def test_tokens_know_their_text_and_what_is_around_it() -> None:
    run = read_lane(AUTO, written(FIRST, STEP, END))
    assert [run.around(index)[1] for index in range(4)] == ["Hel", "lo", " you", ""]
    assert all("".join(run.around(index)) == run.text for index in range(5))
    assert (run.tokens, run.seconds, run.decoder) == (3, 0.2, "plain")


def test_without_ends_a_pieces_last_token_has_its_text() -> None:
    bare = Piece("lo you", (2, 3), ("window", "model"), STEP.statistics)
    run = read_lane(AUTO, written(FIRST, bare))
    assert [run.around(index)[1] for index in range(3)] == ["Hel", "", "lo you"]


def test_text_that_was_held_back_makes_no_token() -> None:
    run = read_lane(AUTO, written(FIRST, Piece("!", (), (), FIRST.statistics), END))
    assert (run.text, run.tokens, run.around(0)[1]) == ("Hel!", 1, "Hel!")
