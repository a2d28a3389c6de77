"""A draft model changes how a reply is written, and never what it says: by the code that a user runs."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from app.engine.drafters.mixed_tree import DraftModelStatistics
from app.engine.loading.draft_loading import USUAL
from app.engine.session.session import Session, no_progress
from app.errors import BadOption, ModelNotFound
from app.values.logits import Grammar, LogitsSettings
from app.values.messages import Decoding, Finished, Message, ModelChoice, Options, Piece, Request, Sampling
from tests.engine.places import Places
from tests.engine.tiny import write_tiny
from tests.engine.tokenizers_made import in_small_letters
from tests.support.hybrid_model import make_model
from tests.tiers import named, pairwise

CPU = ModelChoice("target", dtype="float32", device="cpu")
TWIN, OTHER = replace(CPU, draft_model="twin"), replace(CPU, draft_model="other")
DRAFTS = {"twin": TWIN, "other": OTHER}
"""A copy of the target, which is always right, and one that knows nothing of it."""
DECODINGS = {
    "auto": Decoding(),
    "8 rows": Decoding(rows=8),
    "W5 N4 G5": Decoding("lookahead"),
    "no window": Decoding("lookahead", window=0, ngram=6, guesses=2),
}
SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(0.8, top_k=30, seed=4),
    "penalised": Sampling(0.7, top_p=0.9, repetition_penalty=1.2, seed=5),
}
LOGITS = {
    "free": LogitsSettings(),
    "penalties": LogitsSettings(frequency_penalty=0.7, presence_penalty=0.4, logit_bias=((50, 3.0),)),
    "grammar": LogitsSettings(grammar=Grammar("regex", "(one|two|three)( (one|two|three)){6}")),
}
QUESTION = (Message("user", "Once upon a time there was a fox"),)
LIMIT = 24


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("drafts")
    write_tiny(base / "target")
    shutil.copytree(base / "target", base / "twin")
    write_tiny(base / "other", seed=9)
    make_model(base / "hybrid", hidden=32, layers=4, spread=0.3)
    shutil.copytree(base / "hybrid", base / "recurrent")
    write_tiny(base / "foreign")
    in_small_letters().save_pretrained(base / "foreign")
    write_tiny(base / "stretched")
    _with_dynamic_positions(base / "stretched" / "config.json")
    return {folder.name: folder for folder in base.iterdir()}


def _with_dynamic_positions(file: Path) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rope_parameters": rope}))


@pytest.fixture(scope="module")
def sessions(folders: dict[str, Path]) -> Iterator[dict[str, Session]]:
    """One for each draft model, so that nothing is loaded twice."""
    measurements = folders["target"].parent / "measurements"  # the target is measured once
    opened = {name: Session(Places(folders), measurements) for name in ("none", *DRAFTS)}
    yield opened
    for session in opened.values():
        session.close()


def ask(
    session: Session, model: ModelChoice, options: Options, logits: LogitsSettings, *chat: Message
) -> tuple[list[Piece], Finished]:
    request = Request(model, chat or QUESTION, options, logits=logits)
    events = list(session.events(request, no_progress))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [event for event in events if isinstance(event, Piece)], finished


def ids_of(pieces: list[Piece]) -> list[int]:
    return list(chain.from_iterable(piece.token_ids for piece in pieces))


def origins_of(pieces: list[Piece]) -> set[str]:
    return set(chain.from_iterable(piece.origins for piece in pieces))


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@pairwise(
    draft=DRAFTS, decoding=DECODINGS, sampling=SAMPLINGS, logits=LOGITS, stops=named(((), (" t",))), deep=()
)
def test_the_text_is_plains(
    sessions: dict[str, Session],
    draft: ModelChoice,
    decoding: Decoding,
    sampling: Sampling,
    logits: LogitsSettings,
    stops: tuple[str, ...],
) -> None:
    session = sessions[draft.draft_model]
    options = Options(sampling, Decoding("plain"), LIMIT, stop=stops)
    expected, ended = ask(sessions["none"], CPU, options, logits)
    options = replace(options, decoding=decoding)
    found, finished = ask(session, draft, options, logits)
    assert (ids_of(found), finished.reason) == (ids_of(expected), ended.reason)
    again, _ = ask(session, draft, options, logits)
    assert ids_of(again) == ids_of(expected), "regenerated, with all that was learned"


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_chat_that_goes_on_and_goes_back_says_what_plain_says(
    sessions: dict[str, Session], draft: str
) -> None:
    options = Options(Sampling(0.8, seed=3), Decoding(rows=12), 12)
    said, _ = ask(sessions[draft], DRAFTS[draft], options, LogitsSettings())
    half = Message("assistant", text_of(said[:4]))
    turns = (
        (*QUESTION, half),
        (*QUESTION, Message("assistant", text_of(said)), Message("user", "And then?")),
        (Message("user", "Once upon"),),
        QUESTION,
    )
    for turn in turns:
        found, _ = ask(sessions[draft], DRAFTS[draft], options, LogitsSettings(), *turn)
        plainly = replace(options, decoding=Decoding("plain"))
        assert ids_of(found) == ids_of(ask(sessions["none"], CPU, plainly, LogitsSettings(), *turn)[0])


def test_a_reply_that_was_stopped_leaves_the_draft_model_as_good_as_new(sessions: dict[str, Session]) -> None:
    options = Options(Sampling(0.8, seed=7), Decoding(rows=8), LIMIT, ignore_eos=True)
    whole = ids_of(ask(sessions["none"], CPU, options, LogitsSettings())[0])
    for events in (2, 4, 6):
        replying = sessions["twin"].events(Request(TWIN, QUESTION, options), no_progress)
        for _ in range(events):
            next(replying)
        replying.close()
        assert ids_of(ask(sessions["twin"], TWIN, options, LogitsSettings())[0]) == whole


@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled"]], ids=("greedy", "sampled"))
def test_a_copy_of_the_target_is_nearly_always_right(
    sessions: dict[str, Session], sampling: Sampling
) -> None:
    options = Options(sampling, Decoding("lookahead", window=0, ngram=6, guesses=3), 40, ignore_eos=True)
    sessions["twin"].forget()
    pieces, finished = ask(sessions["twin"], TWIN, options, LogitsSettings())
    assert finished.statistics.tokens_per_step > 3
    assert "draft" in origins_of(pieces)
    assert finished.model.draft_model == "twin"


@pytest.mark.thorough
def test_a_hybrid_drafts_chains_with_it(folders: dict[str, Path]) -> None:
    choice = replace(CPU, name="hybrid", draft_model="other")
    with_draft, without = Session(Places(folders)), Session(Places(folders))
    options = Options(Sampling(), Decoding(rows=8), LIMIT, ignore_eos=True)
    found, finished = ask(with_draft, choice, options, LogitsSettings())
    plainly = replace(options, decoding=Decoding("plain"))
    expected, _ = ask(without, replace(CPU, name="hybrid"), plainly, LogitsSettings())
    assert ids_of(found) == ids_of(expected)
    assert finished.model.note("chains")


@pytest.mark.parametrize(
    ("draft", "sentence"),
    [
        ("foreign", "foreign cannot draft for target, because their tokenizers differ: choose another"),
        ("stretched", "stretched cannot be a draft model, because its state cannot be rewound"),
        pytest.param("recurrent", "recurrent cannot be a draft model", marks=pytest.mark.thorough),
    ],
)
def test_one_that_cannot_draft_is_refused_with_a_sentence_and_the_old_model_stays(
    folders: dict[str, Path], draft: str, sentence: str
) -> None:
    session = Session(Places(folders))
    session.open(CPU, no_progress)
    with pytest.raises(BadOption) as refused:
        session.open(replace(CPU, draft_model=draft), no_progress)
    assert str(refused.value).startswith(sentence)
    assert session.info is not None
    assert not session.info.draft_model


def test_one_that_is_not_there_leaves_the_old_model_loaded(folders: dict[str, Path]) -> None:
    session = Session(Places(folders))
    loaded = session.open(CPU, no_progress)
    with pytest.raises(ModelNotFound):
        session.open(replace(CPU, draft_model="nowhere"), no_progress)
    assert session.open(CPU, no_progress) is loaded


def test_what_was_learned_of_it_is_there_at_the_next_load(folders: dict[str, Path], tmp_path: Path) -> None:
    options = Options(Sampling(), Decoding(rows=8), LIMIT, ignore_eos=True)
    statistics = list[DraftModelStatistics]()
    for _ in range(2):
        session = Session(Places(folders), tmp_path)
        (source,) = session.open(TWIN, no_progress).draft_models
        statistics.append(source.statistics)
        ask(session, TWIN, options, LogitsSettings())
        statistics.append(source.statistics)
    assert statistics[0].gain == 1 - USUAL, "the trial at load: a copy is always right"
    assert statistics[2] == statistics[1] != statistics[0]
