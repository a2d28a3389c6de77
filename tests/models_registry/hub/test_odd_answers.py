"""A hub that answers as none does: every caller ends soon, with a sentence, after a limited number of bytes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from huggingface_hub import constants

from app.errors import AppError, ModelError
from app.models_registry.downloads.process import DownloadRequest
from app.models_registry.downloads.process_main import download
from app.models_registry.hub import http
from app.models_registry.hub.download_plan import DownloadPlan, RemoteFile
from app.models_registry.hub.http import RetryPolicy
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.models_registry.hub.search import inspect_model, search
from app.values.model import Memory, SearchHit
from tests.odd_server import ODD, Answer, answer, is_sentence, odd_server, once, refusal
from tests.support.waiting import PATIENCE
from tests.tiers import pairwise

QUICK = RetryPolicy(read_timeout=0.4, first_wait=0.01, longest_wait=0.02, tries=2)
PLENTY = Memory("cpu", 8 << 30, 16 << 30)
SMALL = HubId("org/small")
PLAN = DownloadPlan("org/small", "main", "c0ffee" * 6 + "c0de", (RemoteFile("config.json", 1000, "a" * 40),))
MOST_TAKEN = 25_000_000
"""Bytes of an answer that have left the server; a system's buffers take some millions."""


Call = Callable[[Hub], Any]


def fetched(hub: Hub, wanted: HubId, plan: DownloadPlan | None) -> Path:
    return download(DownloadRequest(wanted, plan, replace(hub, retry_policy=QUICK)), lambda _: None)


CALLERS: dict[str, Call] = {
    "search": lambda hub: search(hub, "x"),
    "info": lambda hub: inspect_model(hub, SMALL, PLENTY, "float32", 100),
    "download": lambda hub: fetched(hub, SMALL, None),
    "download that goes on": lambda hub: fetched(hub, SMALL, PLAN),
    "login": lambda hub: hub.log_in("hf_secret"),
}


@pytest.fixture(autouse=True)
def quick(reachable: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it needs what that sets
    monkeypatch.setattr(http, "SECONDS_TO_ANSWER", 0.4)


def outcome(call: Call, hub: Hub) -> str:
    """The sentence that a call ends with; "" where it returns."""
    try:
        call(hub)
    except AppError as error:
        return str(error)
    return ""


@pairwise(odd=ODD, call=CALLERS, deep=("a body that drips", "compressed", "a page", "brackets without end"))
def test_an_odd_answer_ends_every_call_soon_with_a_sentence(odd: Answer, call: Call, tmp_path: Path) -> None:
    begun = monotonic()
    with odd_server(odd) as server:
        told = outcome(call, Hub(f"http://{server.host}", tmp_path, retry_policy=QUICK))
        assert max(server.taken, default=0) < MOST_TAKEN
        assert is_sentence(told) or (call is CALLERS["search"] and not told), told
        names = ("Hugging Face", server.host, "org/small")
        assert not told or any(name in told for name in names), told
    assert monotonic() - begun < PATIENCE


def test_a_token_goes_to_the_hub_alone(tmp_path: Path) -> None:
    with odd_server(once(answer(b"{}"))) as other:
        away = refusal("302 Found", Location=f"http://{other.host}/x", **{"Content-Length": "0"})
        with odd_server(once(away)) as server:
            outcome(CALLERS["login"], Hub(f"http://{server.host}", tmp_path))
    assert b"hf_secret" in server.asked[0] and other.asked and b"hf_secret" not in other.asked[0]


@pytest.mark.parametrize("name", [None, 5, "", {"a": 1}, "\x1b[31mme\x07"])
def test_whose_a_token_is_may_be_told_in_words_only(name: object, tmp_path: Path) -> None:
    with odd_server(once(answer(json.dumps({"name": name}).encode()))) as server:
        told = outcome(CALLERS["login"], Hub(f"http://{server.host}", tmp_path))
    assert (
        isinstance(name, str)
        or told == f"http://{server.host} does not report whose token this is: try again later."
    )
    assert isinstance(name, str) == (Path(constants.HF_TOKEN_PATH).exists())


GOOD = {"rfilename": "x.gguf", "size": 9, "blobId": "a" * 40}
LISTED: dict[str, dict[str, object]] = {
    "a size in words": {"size": "9"},
    "a size below 0": {"size": -9},
    "a size of 2^63": {"size": 2**63},
    "a size of 4,000 digits": {"size": 10**4000},
    "a size of half a byte": {"size": 0.5},
    "no size": {"size": None},
    "a name of a number": {"rfilename": 5},
    "a digest of a list": {"blobId": []},
    "a digest of a large file": {"lfs": {"sha256": 5}},
}


@pytest.mark.parametrize("changes", LISTED.values(), ids=LISTED)
def test_odd_files_of_a_repository_are_a_sentence(changes: dict[str, object], tmp_path: Path) -> None:
    body = json.dumps({"sha": "a" * 40, "siblings": [GOOD | changes]}).encode()
    with odd_server(once(answer(body))) as server:
        hub = Hub(f"http://{server.host}", tmp_path)
        told = outcome(CALLERS["download"], hub)
        assert is_sentence(told)
        try:
            (problem,) = inspect_model(hub, SMALL, PLENTY, "float32", 100).problems
        except ModelError as error:
            problem = str(error)
        assert is_sentence(problem)


def test_odd_models_of_a_search_are_left_out_and_odd_numbers_are_0(tmp_path: Path) -> None:
    ids: list[object] = [None, 5, {}, "no-org", "a/b/c", "a/" + "b" * 1000, "org/\x1b", "org/ok", "org/ok"]
    numbers = {"downloads": 10**4000, "likes": "many", "gated": [1]}
    body = json.dumps([None, 5, *({"id": one, **numbers} for one in ids)]).encode()
    with odd_server(once(answer(body))) as server:
        hits = search(Hub(f"http://{server.host}", tmp_path), "x")
    assert hits == [SearchHit("org/ok", 0, 0, is_gated=True)]
