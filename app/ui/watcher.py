"""A page's eyes: follows the conversation from wherever it stands, and stops nothing by looking away.

Each page has its own watcher. It reads only the events that are new since its last look, so that
looking twenty times a second costs next to nothing however long the reply is.
"""

from app.conversation import Reply, ReplyState, Turn, fold
from app.messages import EngineStatus
from app.ui.chatbot_format import ChatbotMessage, chatbot_messages
from app.ui.desk import Desk
from app.ui.live_panel import Trail, extend
from app.ui.view import Screen, screen


class Watcher:
    """Sees the desk as screens. One reader; not shared between pages."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._turns: tuple[Turn, ...] = ()
        self._earlier: tuple[ChatbotMessage, ...] = ()
        self._last = _Following(Reply())
        self._status: EngineStatus | None = None
        self._screen: Screen | None = None

    def look(self) -> Screen:
        """The page as it should be now; the very same object while nothing changed."""
        turned = self._follow_turns()
        wrote = bool(self._turns) and self._last.read()
        status = self._desk.engine.status()
        if self._screen is None or turned or wrote or status != self._status:
            self._status = status
            self._screen = self._draw(status)
        return self._screen

    def _follow_turns(self) -> bool:
        turns = self._desk.conversation.turns
        if turns is self._turns:
            return False
        self._turns = turns
        # Made once a turn, not at every look: finished turns stay as they are.
        self._earlier = tuple(chatbot_messages((turn.question, turn.answer()) for turn in turns[:-1]))
        self._last = _Following(turns[-1].reply if turns else Reply())
        return True

    def _draw(self, status: EngineStatus) -> Screen:
        newest = tuple((turn.question, self._last.state) for turn in self._turns[-1:])
        return screen(self._earlier, newest, self._last.trail, self._desk.asked_decoder, status)


class _Following:
    """One reply, folded as it comes."""

    def __init__(self, reply: Reply) -> None:
        self.state = ReplyState()
        self.trail = Trail()
        self._reply = reply
        self._read = 0

    def read(self) -> bool:
        """Take in the new events; whether there were any."""
        events = self._reply.wait(self._read, timeout=0)
        self._read += len(events)
        self.state = fold(self.state, events)
        self.trail = extend(self.trail, events)
        return bool(events)
