"""One model and the requests to it, on the test's own thread."""

import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import printable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.layers import quantisation
from app.engine.loading import loading
from app.engine.loading.loading import LoadedModel
from app.engine.machine.compiling import Compiled
from app.engine.session.session import Session
from app.errors import BadOption, LoadCancelled, ModelBroken, ModelNotFound, PromptTooLong
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import (
    Decoding,
    DType,
    Event,
    Finished,
    Message,
    ModelChoice,
    Options,
    Piece,
    Request,
    Sampling,
)
from tests.engine.places import Places
from tests.tiers import examples, named, numbered, pairwise, some

PROMPT = "Once upon a time there was a"
CPU = ModelChoice("tiny", dtype="float32", device="cpu")
SHORT = Options(max_new_tokens=24, ignore_eos=True)


@pytest.fixture
def places(model_folders: dict[str, Path]) -> Places:
    return Places(model_folders)


@pytest.fixture
def fresh_session(places: Places, measurements: Path) -> Session:
    return Session(places, measurements)


@pytest.fixture(scope="module")
def loaded_session(model_folders: dict[str, Path], measurements: Path) -> Session:
    return Session(Places(model_folders), measurements)


@pytest.fixture
def session(loaded_session: Session) -> Session:
    """One for many tests, because loads take long; it has forgotten all that it read."""
    loaded_session.forget()
    return loaded_session


def silent(_what: str, _done: int, _total: int) -> None:
    """Nobody watches."""


def ask(
    session: Session,
    prompt: str | tuple[Message, ...] = PROMPT,
    options: Options = SHORT,
    model: ModelChoice = CPU,
) -> list[Event]:
    return list(session.events(Request(model, prompt, options), silent))


@pytest.mark.parametrize("dtype", some(named(["float32", "bfloat16"]), "float32"))
def test_loading_runs_once_from_0_to_100(places: Places, tmp_path: Path, dtype: DType) -> None:
    seen = list[tuple[int, int]]()
    choice = replace(CPU, dtype=dtype)
    Session(places, tmp_path).open(choice, lambda _what, done, total: seen.append((done, total)))
    percents = [done for done, total in seen if total]
    assert percents == sorted(percents) and {total for _, total in seen} <= {0, 100}
    assert (percents[0], percents[-1], len(set(percents)) > 10) == (0, 100, True)


def test_loading_tells_its_steps_by_name_and_ends_where_it_is_cancelled(
    places: Places, tmp_path: Path
) -> None:
    steps, session = list[str](), Session(places, tmp_path)
    session.open(CPU, lambda what, _done, _total: steps.append(what))
    named = list(dict.fromkeys(step.partition(" ")[0] for step in steps))
    assert named == ["Looking", "Loading", "Compiling", "Reading", "Trying", "Measuring"]
    assert steps.count("Reading tiny") > 5

    def cancel(what: str, _done: int, _total: int) -> None:
        if what.startswith("Reading"):
            raise LoadCancelled("Cancelled.")

    with pytest.raises(LoadCancelled):
        session.open(replace(CPU, dtype="bfloat16"), cancel)
    assert session.info is None
    assert session.open(CPU, silent).info.name == "tiny"


def test_waiting_for_the_compiler_can_be_cancelled(
    fresh_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def compile_slowly() -> Compiled[Any]:
        assert may_end.wait(60)
        return Compiled(None)

    def cancel(what: str, _done: int, _total: int) -> None:
        if re.search(r"Compiling.*\d s", what):
            raise LoadCancelled("Cancelled.")

    for module in (loading, quantisation):
        monkeypatch.setattr(module, "compiled_kernels", compile_slowly)
    with pytest.raises(LoadCancelled):
        fresh_session.open(replace(CPU, dtype="auto"), cancel)
    may_end.set()


def ids_of(events: Sequence[Event]) -> list[int]:
    return [token for event in events if isinstance(event, Piece) for token in event.token_ids]


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Piece))


def end_of(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def with_decoder(options: Options, decoding: Decoding) -> Options:
    return replace(options, decoding=decoding)


PLAIN = with_decoder(SHORT, Decoding("plain"))


def test_the_pieces_are_the_text_of_the_tokens(session: Session) -> None:
    events = ask(session)
    loaded = session.open(CPU, silent)
    assert text_of(events) == loaded.decode(ids_of(events))
    assert len(ids_of(events)) == SHORT.max_new_tokens


@given(stop=st.text(" abcdefgh", min_size=1, max_size=3), tokens=st.integers(1, 40))
@examples(12)
def test_every_token_knows_its_part_of_the_text(loaded_session: Session, stop: str, tokens: int) -> None:
    options = replace(SHORT, stop=(stop,), max_new_tokens=tokens)
    for decoding in (Decoding(), Decoding("plain")):
        events = ask(loaded_session, options=with_decoder(options, decoding))
        assert "".join(parts_of(events)) == text_of(events)
        pieces = [event for event in events if isinstance(event, Piece)]
        for piece in pieces:
            assert len(piece.ends) == len(piece.token_ids)
            assert list(piece.ends) == sorted(piece.ends)
            assert not piece.ends or piece.ends[-1] == len(piece.text)
        assert all(piece.token_ids for piece in pieces[:-1])


def parts_of(events: Sequence[Event]) -> list[str]:
    """The text of each token, cut by the ends; what no token came with is the last one's."""
    parts: list[str] = []
    for piece in (event for event in events if isinstance(event, Piece)):
        starts = (0, *piece.ends)
        parts += [piece.text[start:end] for start, end in zip(starts, piece.ends, strict=False)]
        parts[-1:] = [parts[-1] + piece.text] if not piece.ends else parts[-1:]
    return parts


def test_lookahead_on_and_off_write_the_same(session: Session) -> None:
    for sampling in (Sampling(), Sampling(temperature=0.9, top_p=0.9, seed=4)):
        options = replace(SHORT, sampling=sampling)
        quick = ask(session, options=options)
        plain = ask(session, options=with_decoder(options, Decoding("plain")))
        assert ids_of(quick) == ids_of(plain)
        assert parts_of(quick) == parts_of(plain)
        assert (end_of(quick).decoder, end_of(plain).decoder) == ("auto", "plain")


def test_the_numbers_of_plain_decoding_are_exactly_one_token_and_one_row_per_step(session: Session) -> None:
    numbers = end_of(ask(session, options=PLAIN)).statistics
    assert (numbers.tokens_per_step, numbers.rows_per_step) == (1.0, 1.0)
    assert (numbers.steps, numbers.hit_rate, numbers.coverage) == (SHORT.max_new_tokens - 1, 0.0, 0.0)


def test_a_longer_chat_reads_only_what_is_new(session: Session) -> None:
    ask(session, PROMPT)
    again = ask(session, PROMPT + " little girl")
    fresh = ask(Session(Places(session_folders(session))), PROMPT + " little girl")
    assert end_of(again).statistics.reused_tokens > 0
    assert end_of(fresh).statistics.reused_tokens == 0
    assert ids_of(again) == ids_of(fresh)


def session_folders(session: Session) -> dict[str, Path]:
    locate = session._locate
    assert isinstance(locate, Places)
    return locate.folders


def sources_of(events: Sequence[Event]) -> set[str]:
    return {origin for event in events if isinstance(event, Piece) for origin in event.origins}


def test_a_cold_request_owes_nothing_to_earlier_ones(session: Session) -> None:
    options = replace(SHORT, decoding=Decoding("auto", rows=24), max_new_tokens=60)
    first = ask(session, options=options)
    warm = ask(session, options=options)
    cold = list(session.events(Request(CPU, PROMPT, options, is_cold=True), silent))
    assert ids_of(first) == ids_of(warm) == ids_of(cold)
    assert (end_of(warm).statistics.reused_tokens > 0, end_of(cold).statistics.reused_tokens) == (True, 0)
    assert "history" in sources_of(warm)
    assert "history" not in sources_of(cold)
    assert end_of(cold).statistics.steps > end_of(warm).statistics.steps


def test_the_reply_may_quote_a_document_and_stays_as_it_was(session: Session) -> None:
    options = replace(SHORT, decoding=Decoding("auto", rows=24), max_new_tokens=60)
    text = text_of(ask(session, options=replace(options, decoding=Decoding("plain"))))
    documents = ("Something else.", text)
    asked = Request(CPU, PROMPT, options, documents, is_cold=True)
    quoted = list(session.events(asked, silent))
    assert text_of(quoted) == text
    assert "document" in sources_of(quoted)


@pairwise(
    decoding=numbered([Decoding("auto", rows=24), Decoding("lookahead"), Decoding()]),
    sampling=numbered([Sampling(), Sampling(temperature=1.0, seed=3)]),
    deep=(),
)
def test_what_a_grammar_forces_is_drafted_and_the_text_stays(
    session: Session, sampling: Sampling, decoding: Decoding
) -> None:
    properties = {name: {"type": "integer"} for name in ("population", "distance")}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    logits = LogitsSettings(grammar=Grammar("json_schema", json.dumps(schema)))
    options = Options(sampling, decoding, max_new_tokens=60)
    asked, plain = (
        list(session.events(Request(CPU, PROMPT, one, logits=logits), silent))
        for one in (options, with_decoder(options, Decoding("plain")))
    )
    assert ids_of(asked) == ids_of(plain)
    if decoding != Decoding():  # its steps are planned by measured times, so it may decode plainly
        assert "grammar" in sources_of(asked)
    assert "population" in text_of(plain)


def test_a_prediction_is_drafted_from_and_changes_no_text(session: Session) -> None:
    options = replace(SHORT, decoding=Decoding("auto", rows=24), max_new_tokens=60)
    text = text_of(ask(session, options=PLAIN))
    asked = Request(CPU, PROMPT, options, is_cold=True, prediction=text)
    predicted = list(session.events(asked, silent))
    assert text_of(predicted).startswith(text)
    assert "prediction" in sources_of(predicted)


def test_what_was_counted_of_guesses_outlives_the_session(places: Places, tmp_path: Path) -> None:
    options = replace(SHORT, decoding=Decoding("auto", rows=24), max_new_tokens=60)
    before = Session(places, tmp_path)
    ask(before, options=options)
    counts = before.open(CPU, silent).statistics.counts
    assert counts[0] != {}
    assert Session(places, tmp_path).open(CPU, silent).statistics.counts == counts


def test_forgetting_without_a_model_is_nothing(fresh_session: Session) -> None:
    fresh_session.forget()
    assert fresh_session.info is None


def test_a_model_is_loaded_once_and_another_takes_its_place(fresh_session: Session, places: Places) -> None:
    ask(fresh_session), ask(fresh_session)
    ask(fresh_session, model=replace(CPU, name="other"))
    assert fresh_session.info is not None
    assert (fresh_session.info.name, places.asked) == ("other", ["tiny", "other"])


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("lost", pytest.raises(ModelNotFound, match="There is no model lost")),
        ("empty", pytest.raises(ModelBroken)),
    ],
)
def test_a_model_that_is_not_found_or_not_loaded_leaves_the_old_one(
    fresh_session: Session, places: Places, name: str, failure: Any
) -> None:
    before = ask(fresh_session)
    with failure:
        ask(fresh_session, model=replace(CPU, name=name))
    assert fresh_session.info is not None and fresh_session.info.name == "tiny"
    assert ids_of(ask(fresh_session)) == ids_of(before)
    assert places.asked == ["tiny", name]


def test_a_model_that_has_gone_meanwhile_is_not_brought_back(fresh_session: Session, places: Places) -> None:
    ask(fresh_session)
    config = places.folders["tiny"] / "config.json"
    config.rename(config.with_suffix(".away"))
    try:
        with pytest.raises(ModelBroken):
            ask(fresh_session, model=replace(CPU, name="empty"))
        assert (fresh_session.info, fresh_session.peak) == (None, 0)
    finally:
        config.with_suffix(".away").rename(config)
    assert ask(fresh_session)


class WithoutHandle(Session):
    """Its first loads find no room for cuBLAS's handle."""

    failures = 1

    def _load(self, *arguments: Any) -> LoadedModel:
        if self.failures:
            self.failures -= 1
            raise RuntimeError(
                "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
            )
        return super()._load(*arguments)


def test_a_load_without_room_for_cublas_is_tried_once_more(places: Places) -> None:
    assert ask(WithoutHandle(places))
    broken = WithoutHandle(places)
    broken.failures = 2
    with pytest.raises(RuntimeError, match="NOT_INITIALIZED"):
        ask(broken)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_peak_is_of_the_loaded_model_and_without_what_was_taken_before(places: Places) -> None:
    whole, rest = Session(places), Session(places, taken=1_000_000)
    ask(whole), ask(rest)
    assert 0 < rest.peak < whole.peak
    whole.close()
    assert (whole.info, whole.peak) == (None, 0)


def test_the_token_limit_ends_the_reply(session: Session) -> None:
    events = ask(session, options=replace(SHORT, max_new_tokens=1))
    assert (len(ids_of(events)), end_of(events).reason) == (1, "max_tokens")
    assert end_of(events).statistics.steps == 0


def test_the_contexts_end_ends_the_reply(session: Session) -> None:
    events = ask(session, "a" * 230, replace(SHORT, max_new_tokens=500))
    prompt = end_of(events).statistics.prompt_tokens
    assert (end_of(events).reason, prompt + len(ids_of(events))) == ("context", 256)


def test_a_stop_string_ends_the_reply_and_does_not_show(session: Session) -> None:
    whole = text_of(ask(session))
    middle = len(whole) // 2
    stop = whole[middle : middle + 4]
    events = ask(session, options=replace(SHORT, stop=(stop,)))
    assert end_of(events).reason == "stop_string"
    assert text_of(events) == whole[: whole.index(stop)]


def test_what_never_reached_the_model_leaves_what_it_has_read(session: Session) -> None:
    before = end_of(ask(session)).statistics
    for prompt, model, error in (
        ("word " * 2000, CPU, PromptTooLong),
        ((Message("assistant", "no question"),), CPU, BadOption),
        (PROMPT, replace(CPU, name="lost"), ModelNotFound),
    ):
        with pytest.raises(error):
            ask(session, prompt, model=model)
    assert end_of(ask(session)).statistics.reused_tokens == before.prompt_tokens - 1


NARROW = replace(CPU, name="narrow")
"""Its tokenizer knows 4096 tokens, and it has 200 embeddings."""
MISTAKES = {
    "a regular expression that is none": (CPU, PROMPT, SHORT, Grammar("regex", "(")),
    "a schema that is none": (CPU, PROMPT, SHORT, Grammar("json_schema", '{"type": "nonsense"}')),
    "a schema that nothing matches": (CPU, PROMPT, SHORT, Grammar("json_schema", '{"not": {}}')),
    "a reply that the grammar cannot go on": (
        CPU, (Message("user", "Hi"), Message("assistant", "no")), SHORT, Grammar("regex", "ab")
    ),
    "a grammar of tokens that the model lacks": (NARROW, "xyz", SHORT, Grammar("regex", "a\n")),
    "the same, plainly": (NARROW, "xyz", with_decoder(SHORT, Decoding("plain")), Grammar("regex", "a\n")),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_request_that_cannot_be_done_leaves_what_was_read_of_this_and_other_chats(
    session: Session, kind: str
) -> None:
    model, prompt, options, grammar = MISTAKES[kind]
    texts = ["xyz" * 30, "zyx" * 30]
    before = [ids_of(ask(session, text, model=model)) for text in texts]
    wrong = Request(model, prompt, options, logits=LogitsSettings(grammar=grammar))
    with pytest.raises(BadOption):
        list(session.events(wrong, silent))
    for text, ids in reversed([*zip(texts, before, strict=True)]):
        again = ask(session, text, model=model)
        assert end_of(again).statistics.reused_tokens == end_of(again).statistics.prompt_tokens - 1
        assert ids_of(again) == ids


def test_what_failed_in_the_model_is_read_anew(session: Session) -> None:
    model = replace(CPU, name="exhausting")
    before = ask(session, model=model)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        ask(session, "long " * 60, model=model)
    after = ask(session, model=model)
    assert (end_of(after).statistics.reused_tokens, ids_of(after)) == (0, ids_of(before))


def test_a_measurement_that_is_stopped_leaves_no_model_and_the_next_question_is_answered(
    places: Places,
) -> None:
    session = Session(places)  # without a cache

    class Stopped(Exception):
        """The person did not want to wait."""

    seen = set[int]()

    def stop(what: str, done: int, _total: int) -> None:
        if what == "Measuring the model's step":
            seen.add(done)
        if len(seen) == 3:
            raise Stopped

    with pytest.raises(Stopped):
        session.open(CPU, stop)
    assert session.info is None
    assert ids_of(ask(session))


def test_a_prompt_with_tokens_that_the_model_has_no_weights_for_is_refused_in_words(session: Session) -> None:
    refusal = r"The tokenizer and the weights of narrow do not fit each other \(token [\d,]+ of 200\): choose"
    with pytest.raises(BadOption, match=refusal):
        ask(session, "extraordinary", model=NARROW)
    assert len(ids_of(ask(session, "xyz", model=NARROW))) == SHORT.max_new_tokens


def test_a_document_may_hold_tokens_that_the_model_has_no_weights_for(session: Session) -> None:
    options = replace(SHORT, decoding=Decoding("auto", rows=64))
    documents = tuple(f"{letter} extraordinary" for letter in printable)
    asked = Request(NARROW, "xyz", options, documents)
    events = list(session.events(asked, silent))
    assert ids_of(events) == ids_of(ask(session, "xyz", PLAIN, NARROW))


def test_an_impossible_device_is_refused_before_the_old_model_goes(session: Session) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(BadOption, match="No CUDA device"):
        ask(session, model=replace(CPU, device="cuda"))
    assert ids_of(ask(session))
