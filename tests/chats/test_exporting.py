"""Chats written out and read in: everything comes back, and what is broken spoils nothing else."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chats.chats import Chats
from app.database.database import MEMORY, Database
from app.errors import ImportBroken
from app.values.chat import ChatPreset, ChatSettings, ImportResult, MessageContent, TokenMark, WritingState
from app.values.dataclass_json import to_dict
from app.values.json_answers import JsonAnswers
from app.values.messages import Origin, Sampling
from tests.chats.samples import FINISHED, PROVENANCE, answer, texts
from tests.tiers import examples

WRITTEN = st.builds(
    MessageContent,
    st.text(max_size=30),
    st.sampled_from([state for state in get_args(WritingState) if state != "writing"]),
    st.text(max_size=10),
    st.lists(
        st.builds(TokenMark, st.integers(0, 10**6), st.sampled_from(get_args(Origin)), st.integers(0, 999)),
        max_size=5,
    ).map(tuple),
    st.sampled_from([None, PROVENANCE]),
    st.floats(0, 1e6),
)


def whole(chats: Chats) -> list[Any]:
    """All chats with everything, but for their numbers."""
    found = json.loads(chats.export_json())["chats"]
    for chat in found:
        numbers = {message["id"]: at for at, message in enumerate(chat["messages"], start=1)}
        chat["shown"] = numbers.get(chat["shown"])
        for message in chat["messages"]:
            message["id"], message["parent"] = numbers[message["id"]], numbers.get(message["parent"])
    return sorted(found, key=lambda chat: (chat["created"], chat["updated"]))


def file_of(*chats: Any, **more: Any) -> str:
    return json.dumps({"format": "foresight-chats", "version": 1, "chats": list(chats), **more})


def a_chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"title": "t", "messages": list(messages), **more}


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "text": text, **more}


def test_a_library_comes_back_as_it_was(chats: Chats, tmp_path: Path) -> None:
    place = chats.create(
        ChatSettings("Be brief.", Sampling(0.5), (), JsonAnswers(True, '{"type": "array"}')), "Work", "Named"
    )
    place, reply = chats.ask(place, "Why? 全文 \ud83d")
    chats.write(reply, FINISHED)
    place, second = chats.regenerate(place, reply)
    chats.write(second, MessageContent("Other", "stopped", "You stopped this reply."))
    chats.show(place, reply)
    chats.pin(place.chat, True)
    answer(chats, chats.create(), "q", "a")
    chats.save_preset(ChatPreset("terse", ChatSettings("Be terse.", Sampling(0.1))))
    with closing(Database(tmp_path / "other.sqlite")) as database:
        other = Chats(database)
        answer(other, other.create(), "already", "here")
        assert other.import_json(chats.export_json()) == ImportResult(2, 0)
        assert whole(other)[-2:] == whole(chats) or whole(other)[:2] == whole(chats)
        assert other.presets() == chats.presets()
        assert [one.summary.title for one in other.search("answer")] == ["Named"]
        assert (len(other.summaries()), database.damage()) == (3, "")


@examples(40)
@given(
    st.lists(st.tuples(WRITTEN, st.integers(0, 5)), max_size=8), st.text(max_size=20), st.text(max_size=20)
)
def test_any_chat_comes_back_as_it_was(
    replies: list[tuple[MessageContent, int]], system: str, folder: str
) -> None:
    one, other = Database(":memory:"), Database(":memory:")
    chats, copied = Chats(one), Chats(other)
    place, ids = chats.create(ChatSettings(system), folder), [0]
    for written, pick in replies:
        place, reply = chats.ask(place, written.text or "?", parent=ids[pick % len(ids)])
        chats.write(reply, written)
        ids.append(reply)
    copied.import_json(chats.export_json())
    assert whole(copied) == whole(chats)
    assert other.damage() == ""
    one.close()
    other.close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"chats": 3}', "[" * 100_000, "PK\x03\x04", '{"format": "x"}']
)
def test_what_is_no_export_is_a_sentence(chats: Chats, text: str) -> None:
    with pytest.raises(ImportBroken, match=r"Choose a (JSON )?file"):
        chats.import_json(text)
    assert chats.summaries() == ()


def test_a_file_of_a_newer_app_is_refused(chats: Chats) -> None:
    with pytest.raises(ImportBroken, match="newer"):
        chats.import_json(file_of(a_chat(), version=99))


def test_one_bad_chat_does_not_spoil_the_others(chats: Chats) -> None:
    bad = [None, 3, {}, {"messages": "x"}, "text"]
    assert chats.import_json(file_of(*bad, a_chat(said("user", "Hi", id=1)))) == ImportResult(1, 0)
    assert texts(chats, chats.summaries()[0].id) == ["Hi"]
    with pytest.raises(ImportBroken, match="None of the chats"):
        chats.import_json(file_of(*bad))


def test_missing_and_wrong_fields_get_their_defaults(chats: Chats) -> None:
    message = said(
        "assistant", "a", id=2, parent=1, state=7, note=None, marks="no", provenance=[], thought="x"
    )
    broken = a_chat(
        said("user", "q", id=1), message, title=None, created=None, updated=float("nan"),
        sampling={"temperature": -1}, is_pinned="yes", shown="2", folder=3, of_later={"x": 1},
    )  # fmt: skip
    assert chats.import_json(file_of(broken)) == ImportResult(1, 0)
    line = chats.summaries()[0]
    assert (line.title, line.folder, line.is_pinned, line.updated) == ("", "", False, 0.0)
    thread = chats.thread(line.id)
    assert thread.settings == ChatSettings()
    assert [message.content for message in thread.messages] == [
        MessageContent("q", "done"),
        MessageContent("a", "done"),
    ]


@pytest.mark.parametrize("updated", [1_763_700_000_000, -5, 1e300, 2_000_000_001])
def test_a_date_that_cannot_be_is_the_moment_of_the_import(updated: float) -> None:
    with closing(Database(MEMORY)) as database:
        chats = Chats(database, now=lambda: 2_000_000_000.0)
        odd = a_chat(said("user", "q", id=1), created=1_763_700_000_000, updated=updated)
        usual = a_chat(said("user", "r", id=1), created=1.0, updated=2.0)
        chats.import_json(file_of(odd, usual))
        assert [line.updated for line in chats.summaries()] == [2_000_000_000.0, 2.0]
        assert chats.import_json(file_of(odd, usual)) == ImportResult(0, 2), "known by when it was begun"


def test_messages_that_make_no_sense_are_left_out_and_orphans_are_first_ones(chats: Chats) -> None:
    messages = [
        said("robot", "x", id=1),
        None,
        7,
        {"id": 3},
        said("user", "q", id=4, parent=99),
        said("user", "r", id=5, parent=6),
        said("assistant", "s", id=6, parent=5),
    ]
    chats.import_json(file_of(a_chat(*messages, shown=6)))
    assert texts(chats, chats.summaries()[0].id) == ["r", "s"]
    assert len(chats.thread(chats.summaries()[0].id).messages[0].versions) == 2


def test_halves_of_characters_come_in_as_marks(chats: Chats) -> None:
    half = "x \ud83d"
    provenance = json.loads(json.dumps(to_dict(PROVENANCE)).replace("org/model", "x \\ud83d"))
    message = said("assistant", half, id=1, note=half, provenance=provenance)
    preset = {"name": half, "manner": {"system": half}}
    chats.import_json(file_of(a_chat(message, title=half, folder=half, system=half), presets=[preset]))
    line = chats.summaries()[0]
    written = chats.thread(line.id).messages[0].content
    assert {line.title, line.folder, written.text, written.note, chats.presets()[0].name} == {"x ?"}
    assert written.provenance is not None and written.provenance.model.name == "x ?"


def test_what_was_being_written_there_is_interrupted_here(chats: Chats) -> None:
    chats.ask(chats.create(title="first"), "q")
    with closing(Database(MEMORY)) as database:
        elsewhere = Chats(database)
        elsewhere.import_json(chats.export_json())
        (line,) = elsewhere.summaries()
        assert elsewhere.thread(line.id).messages[-1].content.state == "interrupted"


def test_a_chat_that_is_here_does_not_come_in_twice(chats: Chats) -> None:
    for question in ("q", "q", "half \ud83d"):
        answer(chats, chats.create(), question, "a")
    before = whole(chats)
    assert chats.import_json(chats.export_json()) == ImportResult(0, 3)
    assert whole(chats) == before


def test_an_older_copy_of_a_chat_is_known_and_a_newer_one_comes_in_beside_it(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(), "q", "a")
    older = chats.export_json()
    answer(chats, place, "more", "b")
    newer = chats.export_json()
    assert chats.import_json(older) == ImportResult(0, 1)
    with closing(Database(MEMORY)) as database:
        elsewhere = Chats(database)
        elsewhere.import_json(older)
        assert elsewhere.import_json(newer) == ImportResult(1, 0)
        assert sorted(len(chat["messages"]) for chat in whole(elsewhere)) == [2, 4]


def test_a_deleted_chat_comes_in_again(chats: Chats) -> None:
    place, _ = answer(chats, chats.create(), "q", "a")
    saved = chats.export_json()
    chats.delete(place.chat)
    assert chats.import_json(saved) == ImportResult(1, 0)


def test_chats_of_a_file_that_say_the_same_all_come_in(chats: Chats) -> None:
    one = a_chat(said("user", "Hi", id=1))
    assert chats.import_json(file_of(one, one)) == ImportResult(2, 0)
    assert chats.import_json(file_of(one, one)) == ImportResult(0, 2)


def test_presets_that_are_here_stay_as_they_are_and_others_of_their_names_come_in_beside_them(
    chats: Chats,
) -> None:
    chats.save_preset(ChatPreset("a", ChatSettings("mine")))
    presets = [
        {"name": "a", "manner": {"system": "theirs"}},
        {"name": "b", "manner": {"system": "new"}},
        {"name": " "},
        3,
    ]
    for _ in range(2):
        chats.import_json(file_of(presets=presets))
    kept = {preset.name: preset.settings.system for preset in chats.presets()}
    assert kept == {"a": "mine", "a (2)": "theirs", "b": "new"}


def test_only_the_chats_that_were_asked_for_are_written_out(chats: Chats) -> None:
    first, second = chats.create(title="a").chat, chats.create(title="b").chat
    chats.save_preset(ChatPreset("p", ChatSettings()))
    seen = json.loads(chats.export_json([second]))
    assert ([chat["title"] for chat in seen["chats"]], seen["presets"]) == (["b"], [])
    chats.delete(first)
    assert [chat["title"] for chat in json.loads(chats.export_json())["chats"]] == ["b"]


def test_a_library_is_written_out_chat_by_chat_while_the_app_goes_on(chats: Chats) -> None:
    newest = [chats.create(title=title).chat for title in ("a", "b", "c")][::-1]
    parts = chats.export_parts()
    read = [next(parts), next(parts)]
    chats.rename(newest[1], "changed")
    chats.delete(newest[2])
    seen = json.loads("".join([*read, *parts]))
    assert [chat["title"] for chat in seen["chats"]] == ["c", "changed"]


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("<think>\nHm.\n\nSo?\n</think>\n\nYes.", "> *Thought*\n>\n> Hm.\n>\n> So?\n\nYes."),
        ("<think>\nHm.", "> *Thought*\n>\n> Hm."),
        ("<think>\n\n</think>\n\nYes.", "Yes."),
        ("The tag <think> opens a thought.", "The tag <think> opens a thought."),
    ],
)
def test_a_thought_is_a_quotation_in_markdown(reply: str, shown: str, chats: Chats) -> None:
    place, message = chats.ask(chats.create(), "Is it?")
    chats.write(message, MessageContent(reply))
    assert chats.export_markdown(place.chat).endswith(f"\n\n{shown}\n")


def test_a_chat_reads_well_as_markdown(chats: Chats) -> None:
    place, reply = chats.ask(chats.create(ChatSettings("Be\nbrief."), title="Why"), "Why?\n")
    chats.write(reply, FINISHED)
    place, reply = chats.ask(place, "And?")
    chats.write(reply, MessageContent("    code\n", "stopped", "You stopped this reply."))
    assert chats.export_markdown(place.chat) == (
        "# Why\n\n> Be\n> brief.\n\n## You\n\nWhy?\n\n## org/model\n\nAn answer\n\n"
        "## You\n\nAnd?\n\n## Reply\n\n    code\n\n*You stopped this reply.*\n"
    )
