"""Trees of messages: whatever is done to a chat, its path, its versions and its places are a plain model's."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from app.chats import Chats
from app.chats.message_table import MessageTree
from app.database import Database
from app.values.chat import ChatVersion, MessageContent
from tests.tiers import examples

PARENTS = {1: 0, 2: 1, 3: 1, 5: 2, 6: 5, 7: 2}


def test_the_example_of_the_module() -> None:
    tree = MessageTree(PARENTS.items())
    assert tree.path_to(6) == (1, 2, 5, 6)
    assert (tree.versions(5), tree.versions(2), tree.versions(1)) == ((5, 7), (2, 3), (1,))
    assert (tree.newest_below(2), tree.newest_below(0), tree.newest_below(3)) == (7, 3, 3)
    assert (tree.path_to(0), 4 in tree, 5 in tree) == ((), False, True)


@dataclass
class PlainModel:
    """A chat as lists: each message is (parent, text), its number is its place in the list plus one."""

    messages: list[tuple[int, str]] = field(default_factory=list)
    shown: int = 0

    def add(self, parent: int, text: str) -> None:
        self.messages.append((parent, text))
        self.shown = len(self.messages)

    def path(self) -> list[int]:
        path, at = [], self.shown
        while at:
            path.insert(0, at)
            at = self.messages[at - 1][0]
        return path

    def versions(self, message: int) -> list[int]:
        parent = self.messages[message - 1][0]
        return [at for at, (above, _) in enumerate(self.messages, start=1) if above == parent]

    def show(self, message: int) -> None:
        below = [at for at, (above, _) in enumerate(self.messages, start=1) if above == message]
        if below:
            self.show(below[-1])
        else:
            self.shown = message

    def replies(self) -> list[int]:
        return [at for at, (_, text) in enumerate(self.messages, start=1) if text.startswith("a")]


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "edit", "anew", "show", "continue"]), st.integers(0, 10**6)),
    max_size=25,
)


@examples(60)
@given(ACTIONS)
def test_a_chat_is_what_was_done_to_it(actions: list[tuple[str, int]]) -> None:
    database = Database(":memory:")
    chats, model = Chats(database), PlainModel()
    place = chats.create()
    for number, (action, pick) in enumerate(actions):
        place = do(chats, model, place, action, pick, f"{number}")
        compare(chats, model, place)
    compare_imported(chats, place, model)
    assert database.is_healthy() == ""
    database.close()


def do(chats: Chats, model: PlainModel, place: ChatVersion, action: str, pick: int, text: str) -> ChatVersion:
    """The same to the chat and to the model."""
    replies = model.replies()
    chosen = replies[pick % len(replies)] if replies else 0
    if action in ("ask", "edit") or not replies:
        parent = None if action == "ask" else chosen if pick % 3 else 0
        place, reply = chats.ask(place, f"q{text}", parent)
        model.add(model.shown if parent is None else parent, f"q{text}")
        model.add(model.shown, f"a{text}")
    elif action == "anew":
        place, reply = chats.regenerate(place, chosen)
        model.add(model.messages[chosen - 1][0], f"a{text}")
    elif action == "show":
        message = pick % len(model.messages) + 1
        model.show(message)
        return chats.show(place, message)
    else:
        if chosen not in model.path():
            model.show(chosen)
        return chats.continue_reply(place, chosen)
    chats.write(reply, MessageContent(f"a{text}", "done"))
    return place


def compare(chats: Chats, model: PlainModel, place: ChatVersion) -> None:
    thread = chats.thread(place.chat, 1000)
    assert thread.version == place
    assert [message.id for message in thread.messages] == model.path()
    assert [message.text for message in thread.messages] == [model.messages[at - 1][1] for at in model.path()]
    assert [list(message.versions) for message in thread.messages] == [
        model.versions(at) for at in model.path()
    ]


def compare_imported(chats: Chats, place: ChatVersion, model: PlainModel) -> None:
    """A chat that was written out and read in is the same under other numbers."""
    other = Database(":memory:")
    with other.writing() as connection:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('message', 1000)")
    Chats(other).import_json(chats.export_json([place.chat]))
    copied = Chats(other).thread(1, 1000)
    assert [message.id - 1000 for message in copied.messages] == model.path()
    shown = chats.thread(place.chat, 1000).messages
    assert [message.content.text for message in copied.messages] == [message.text for message in shown]
    assert [len(message.versions) for message in copied.messages] == [len(m.versions) for m in shown]
    other.close()
