"""After looks that did not pay come plain steps, ever more of them; a look that pays ends that."""

from app.engine.lookahead.patience import CALM, LONGEST_REST, Patience


def rests(patience: Patience, looks: str) -> list[int]:
    """The rest before each look; "-" is one that did not pay."""
    found = []
    for look in looks:
        found.append(patience.rest())
        patience.look(did_pay=look == "+")
    return found


def test_the_drawing_of_the_module() -> None:
    assert rests(Patience(), "-" * 9) == [0] * CALM + [8, 16, 32, LONGEST_REST, LONGEST_REST]


def test_while_looks_pay_there_is_no_rest() -> None:
    assert rests(Patience(), "+---+--+---+") == [0] * 12


def test_a_look_that_pays_ends_the_rests_and_the_next_ones_begin_short() -> None:
    assert rests(Patience(), "-----+-----") == [0, 0, 0, 0, 8, 16, 0, 0, 0, 0, 8]


def test_a_new_reply_looks_at_once_and_rests_a_quarter_as_long() -> None:
    patience = Patience()
    assert rests(patience, "-" * 8)[-1] == LONGEST_REST
    patience.begin_reply()
    assert rests(patience, "---") == [0, LONGEST_REST // 2, LONGEST_REST]


def test_a_new_reply_behind_one_that_paid_is_patient() -> None:
    patience = Patience()
    rests(patience, "-+")
    patience.begin_reply()
    assert rests(patience, "-----") == [0, 0, 0, 0, 8]
