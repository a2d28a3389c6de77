"""After looks that did not pay come plain steps, ever more of them; a look that pays ends that."""

from app.engine.lookahead.backoff import MAX_FAILURES, MAX_PLAIN_STEPS, Backoff


def rests(backoff: Backoff, looks: str) -> list[int]:
    """The rest before each look; "-" is one that did not pay."""
    found = []
    for observe_draft in looks:
        found.append(backoff.plain_steps())
        backoff.observe_draft(did_pay=observe_draft == "+")
    return found


def test_the_drawing_of_the_module() -> None:
    assert rests(Backoff(), "-" * 9) == [0] * MAX_FAILURES + [8, 16, 32, MAX_PLAIN_STEPS, MAX_PLAIN_STEPS]


def test_while_looks_pay_there_is_no_rest() -> None:
    assert rests(Backoff(), "+---+--+---+") == [0] * 12


def test_a_look_that_pays_ends_the_rests_and_the_next_ones_begin_short() -> None:
    assert rests(Backoff(), "-----+-----") == [0, 0, 0, 0, 8, 16, 0, 0, 0, 0, 8]


def test_a_new_reply_looks_at_once_and_rests_a_quarter_as_long() -> None:
    backoff = Backoff()
    assert rests(backoff, "-" * 8)[-1] == MAX_PLAIN_STEPS
    backoff.begin_reply()
    assert rests(backoff, "---") == [0, MAX_PLAIN_STEPS // 2, MAX_PLAIN_STEPS]


def test_a_new_reply_behind_one_that_paid_is_patient() -> None:
    backoff = Backoff()
    rests(backoff, "-+")
    backoff.begin_reply()
    assert rests(backoff, "-----") == [0, 0, 0, 0, 8]
