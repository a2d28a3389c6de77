"""A model on a server races beside the local lanes, and whatever its server does, their result remains."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import pytest

from app.chats import Chats
from app.conversation import ChatStores, Conversations, NewChat, Reply
from app.conversation.race.decoder_comparison import WARM_UP_TOKENS
from app.conversation.race.race import ROUNDS, Race
from app.conversation.race.remote_lane import RemoteReader, remote_run
from app.database import Database
from app.errors import RaceRefused
from app.remote import Servers
from app.values.chat import ChatVersion
from app.values.messages import Failed, Finished, ModelChoice, Piece, Statistics
from app.values.race import RaceResult
from app.values.server import Limits
from tests.conversation.people import ASKED
from tests.fakes import DEMO, FakeDocumentSearch
from tests.racing import AUTO, PLAIN, LaneEngine, SlowEngine, make_plan, make_race, run_race
from tests.remote.fake_server import SENTENCES, FakeServer, Misbehaviour, added, running, told_of

QUICK = Limits(connect=2, listing=1, silence=0.3)
UNUSED = "http://127.0.0.1:1/v1"
FAR = ModelChoice("org/model", server="http://box:8000/v1")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer()) as server:
        yield server


@pytest.fixture
def servers(tmp_path: Path, server: FakeServer) -> Servers:
    return Servers(added(tmp_path, server.address), limits=QUICK)


def on(address: str) -> tuple[ModelChoice]:
    return (ModelChoice("org/model", server=address),)


def race_beside(servers: Servers, address: str, engine: LaneEngine | None = None) -> RaceResult:
    return run_race(engine or LaneEngine(), make_plan(PLAIN, AUTO, remote=on(address)), servers.submit)


def test_the_server_gets_the_lanes_prompt_and_settings_in_each_round(
    servers: Servers, server: FakeServer
) -> None:
    engine = LaneEngine()
    result = race_beside(servers, server.address, engine)
    assert [asked["max_tokens"] for asked in server.asked] == [WARM_UP_TOKENS] + [64] * ROUNDS
    (messages,) = {str(asked["messages"]) for asked in server.asked}
    assert messages == str([{"role": "user", "content": engine.requests[0].prompt[0].content}])  # type: ignore[union-attr]
    (lane,) = result.remote
    assert lane.run.text == "Hello there." and len(lane.speeds) == len(lane.waits) == ROUNDS
    assert lane.run.name == "remote: org/model" and not lane.failure


def test_rounds_alternate_and_the_remote_lane_comes_last(servers: Servers, server: FakeServer) -> None:
    race = make_race(LaneEngine(), ask_server=servers.submit)
    race.start(make_plan(PLAIN, AUTO, remote=on(server.address)))
    race.wait(10)
    assert [each.lane for each in race.state.replies] == [PLAIN, AUTO, *on(server.address)] * ROUNDS


def test_the_verdict_is_on_the_local_lanes_alone(servers: Servers, server: FakeServer) -> None:
    """However fast the server is: it may run another model."""
    alone = run_race(LaneEngine(), make_plan(PLAIN, AUTO))
    beside = race_beside(servers, server.address)
    assert (beside.winner, beside.leader, beside.lanes) == (alone.winner, alone.leader, alone.lanes)
    assert beside.fastest_plain == alone.fastest_plain and beside.model == DEMO


def test_tokens_are_those_that_the_server_counted(servers: Servers, server: FakeServer) -> None:
    (lane,) = race_beside(servers, server.address).remote
    assert (lane.run.tokens, lane.run.counts_pieces, lane.run.statistics.tokens_per_step) == (7, False, 0)
    assert lane.run.curve[0][1] >= 1 and lane.speed.median > 0 and lane.wait.median > 0


def test_pieces_are_counted_where_the_server_tells_no_number(servers: Servers, server: FakeServer) -> None:
    server.last = {}
    (lane,) = race_beside(servers, server.address).remote
    assert lane.run.counts_pieces and [tokens for _, tokens in lane.run.curve] == [1, 2, 3]
    assert lane.run.statistics.tokens == 2 and lane.speed.median > 0


def test_acceptance_is_told_where_the_server_tells_it(servers: Servers, server: FakeServer) -> None:
    server.last["foresight"] = {"tokens_per_step": 2.0}
    (lane,) = race_beside(servers, server.address).remote
    assert lane.run.statistics.tokens_per_step == 2


@pytest.mark.parametrize("misbehaviour", SENTENCES)
def test_a_server_that_misbehaves_ends_its_lane_and_nothing_else(
    misbehaviour: Misbehaviour, servers: Servers, server: FakeServer
) -> None:
    server.misbehaves = misbehaviour
    result = race_beside(servers, server.address)
    (lane,) = result.remote
    assert lane.failure == told_of(misbehaviour, server) and lane.speeds == ()
    assert result.winner is result.lanes[1] and all(each.is_identical for each in result.lanes)
    assert len(server.asked) == 1, "it is not asked again"


def test_a_wrong_key_ends_the_lane(servers: Servers, server: FakeServer) -> None:
    server.key = "sk-right"
    (lane,) = race_beside(servers, server.address).remote
    assert lane.failure.startswith("127.0.0.1:") and "asks for a key (401)" in lane.failure


def test_a_server_that_is_gone_or_removed_ends_the_lane(tmp_path: Path) -> None:
    servers = Servers(added(tmp_path, UNUSED), limits=QUICK)
    assert race_beside(servers, UNUSED).remote[0].failure.startswith("Can't reach 127.0.0.1:1")
    servers.remove(UNUSED)
    assert "was removed" in race_beside(servers, UNUSED).remote[0].failure


def test_a_server_that_says_nothing_for_long_is_given_up(tmp_path: Path, server: FakeServer) -> None:
    server.misbehaves = "silent"
    ask = partial(Servers(added(tmp_path, server.address)).submit, silence=0.2)
    result = run_race(LaneEngine(), make_plan(remote=on(server.address)), ask)
    assert "did not answer in time" in result.remote[0].failure


def test_a_lane_that_fails_later_keeps_what_was_measured(servers: Servers, server: FakeServer) -> None:
    engine = LaneEngine()

    def break_in_the_second_round(_request: object) -> None:
        if len(server.asked) == 2:
            server.misbehaves = "cut off"

    engine.on_submit = break_in_the_second_round
    (lane,) = race_beside(servers, server.address, engine).remote
    assert "broke before" in lane.failure and len(lane.speeds) == 1
    assert lane.run.text == "Hello there.", "the run that is complete"
    assert len(server.asked) == 3


@pytest.mark.parametrize("misbehaviour", ["", "silent"])
def test_stopping_hangs_up_within_a_moment(
    misbehaviour: Misbehaviour, tmp_path: Path, server: FakeServer
) -> None:
    server.misbehaves, server.pauses = misbehaviour, True
    race = begun(Servers(added(tmp_path, server.address)), server)
    before = monotonic()
    race.stop()
    race.wait(5)
    assert monotonic() - before < 2
    assert (race.state.phase, race.state.result) == ("stopped", None)
    assert server.is_left.wait(5), "the server sees that its client has gone"


def test_the_engine_is_free_while_the_server_writes(
    tmp_path: Path, server: FakeServer, database: Database
) -> None:
    server.pauses = True
    engine = SlowEngine()
    race = begun(Servers(added(tmp_path, server.address)), server, engine)
    chats = Conversations(engine, ChatStores(Chats(database), Chats(database)), FakeDocumentSearch())
    place = chats.start(NewChat(ChatVersion(), ASKED, "Hi"))
    chats.close()
    assert chats.thread(place.chat, 1).messages[0].text == engine.text
    assert race.state.is_running
    race.close()


def begun(servers: Servers, server: FakeServer, engine: SlowEngine | None = None) -> Race:
    """A race whose remote lane is under way."""
    race = make_race(engine or SlowEngine(), ask_server=servers.submit)
    race.start(make_plan(remote=on(server.address)))
    wait_until(lambda: bool(server.asked))
    return race


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = monotonic() + 10
    while not is_so() and monotonic() < deadline:
        sleep(0.01)
    assert is_so()


def test_a_model_of_a_server_is_raced_beside_one_of_this_machine() -> None:
    race = make_race(LaneEngine())
    with pytest.raises(RaceRefused, match="choose an installed one first") as refused:
        race.start(replace(make_plan(), model=FAR))
    assert "org/model can be the remote lane." in str(refused.value)


@pytest.mark.parametrize("remote", [(FAR, FAR), (ModelChoice("demo"),)])
def test_a_remote_lane_is_one_and_has_a_server(remote: tuple[ModelChoice, ...]) -> None:
    with pytest.raises(ValueError, match="remote lane"):
        make_plan(remote=remote)


def test_tokens_are_spread_over_the_pieces_by_their_text() -> None:
    pieces = [piece("One", 0.0), piece(" and two and", 1.0), piece(" six", 2.0)]
    run = remote_run(FAR, [*pieces, Finished("eos", Statistics(tokens=9, seconds=2.0), DEMO, "auto")])
    assert run.curve == ((0.0, 2), (1.0, 8), (2.0, 10))
    assert remote_run(FAR, pieces).curve == ((0.0, 1), (1.0, 2), (2.0, 3)), "unknown before the end"


def test_a_run_is_read_anew_only_where_something_came() -> None:
    reply = Reply()
    reader = RemoteReader(FAR, reply)
    assert reader.read() is reader.read() and reader.run.tokens == 0
    reply.append(piece("One", 0.0))
    assert reader.read() is reader.read() and reader.run.text == "One"
    reply.append(Failed("The server is gone."))
    assert (reader.read().failure, reader.run.reason) == ("The server is gone.", None)


def piece(text: str, seconds: float) -> Piece:
    return Piece(text, (), (), Statistics(time_to_first_token=0.1, seconds=seconds))
