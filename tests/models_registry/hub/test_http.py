"""Which failures are waited out, and for how long."""

from huggingface_hub.errors import HTTPError as NetworkError

from app.models_registry.hub.http import IncompleteTransfer, RetryPolicy, is_retryable


def test_waits_double_up_to_the_longest_and_heed_the_server() -> None:
    policy = RetryPolicy(first_wait=1, longest_wait=10)
    assert [policy.delay(failures) for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert policy.delay(1, requested=5) == 5 and policy.delay(1, requested=500) == 10


def test_what_the_next_try_may_cure_is_told_from_what_it_may_not() -> None:
    redirects = type("TooManyRedirects", (NetworkError,), {})
    assert is_retryable(IncompleteTransfer()) and is_retryable(NetworkError("cut"))
    assert not is_retryable(redirects("round")) and not is_retryable(KeyError("bug"))
