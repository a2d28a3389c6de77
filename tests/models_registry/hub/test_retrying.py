"""Which failures are waited out, and for how long."""

from huggingface_hub.errors import HTTPError as NetworkError

from app.models_registry.hub.retrying import EndedEarly, Patience, is_passing


def test_waits_double_up_to_the_longest_and_heed_the_server() -> None:
    patience = Patience(first_wait=1, longest_wait=10)
    assert [patience.wait(failures) for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert patience.wait(1, asked=5) == 5 and patience.wait(1, asked=500) == 10


def test_what_the_next_try_may_cure_is_told_from_what_it_may_not() -> None:
    redirects = type("TooManyRedirects", (NetworkError,), {})
    assert is_passing(EndedEarly()) and is_passing(NetworkError("cut"))
    assert not is_passing(redirects("round")) and not is_passing(KeyError("bug"))
