"""A page's eyes: sees its chat, the list of chats and the engine as one screen, and stops nothing by looking away.

A look costs next to nothing while nothing happened: the stores count their changes, and of a reply only the
events since the last look are read.
"""

from datetime import date
from time import monotonic

from app.chat_messages import ChatSearchResult, ChatVersion, Thread
from app.conversation import ContextFit, is_private
from app.errors import AppError, ChatNotFound
from app.messages import EngineStatus, Message, Options
from app.ui.chat.chip import chip_html
from app.ui.chat.following import Following
from app.ui.chat.screen import Screen, Seen, cut_of, messages_html, screen
from app.ui.chat.seat import Seat
from app.ui.services import Services
from app.ui.sidebar.chat_list import ChatList, chat_list_html

LONG = 100_000
"""Characters on the page from which on they are drawn before they are counted."""
COUNT_SECONDS = 0.4
"""The context is counted no more often than this while somebody types."""


class Watcher:
    """Sees the services from one seat, as screens."""

    def __init__(self, services: Services, seat: Seat, count_seconds: float = COUNT_SECONDS) -> None:
        self._services = services
        self._seat = seat
        self._key: tuple[object, ...] = ()
        self._thread = Thread(ChatVersion())
        self._is_writing, self._problem, self._rewritten = False, "", 0
        self._messages = self._sidebar = self._chip = ""
        self._cut = (0, True)
        self._following: Following | None = None
        self._meter = _Meter(services, count_seconds)
        self._screen: Screen | None = None

    @property
    def following(self) -> Following | None:
        """The reply that is being written, or was last since the app began."""
        return self._following

    def look(self) -> Screen:
        """The page as it should be now; the very same object while nothing changed."""
        turned = self._look_at_chats()
        wrote = self._following is not None and self._following.read()
        status = self._services.engine.status()
        # A long chat is drawn first: counting a million characters takes seconds.
        is_late = turned and sum(len(message.text) for message in self._thread.messages) > LONG
        counted = not is_late and self._meter.look(self._thread, self._seat, status)
        if turned or counted:
            self._draw_messages(is_anew=turned)
        if self._screen is None or turned or wrote or counted or status != self._screen.engine:
            self._screen = screen(self._seen(), self._messages, self._sidebar, status)
        return self._screen

    def _draw_messages(self, is_anew: bool) -> None:
        seen = self._seen()
        if is_anew or cut_of(seen) != self._cut:
            self._messages, self._cut = messages_html(seen), cut_of(seen)

    def has_turned(self) -> bool:
        """Whether there is something that the next look must read, render or count, which may take a while."""
        status = self._services.engine.status()
        is_slow = self._following is not None and self._following.is_slow
        return is_slow or self._key_now() != self._key or self._meter.is_due(self._thread, self._seat, status)

    def _key_now(self) -> tuple[object, ...]:
        seat, conversations = self._seat, self._services.conversations
        chat = seat.place.chat
        return (
            conversations.is_writing(chat), conversations.problem(chat), conversations.stores.changes, chat,
            seat.sitting, seat.newest, seat.coloured, seat.words, seat.deleted, seat.listed, seat.unfolded,
            seat.is_private, seat.manner, self._services.documents.changes,
        )  # fmt: skip

    def _look_at_chats(self) -> bool:
        key, chat = self._key_now(), self._seat.place.chat
        if key == self._key:
            return False
        before = self._thread.settings.system
        try:
            self._thread = self._read_thread(chat)
        except ChatNotFound:  # deleted on another page
            self._leave(chat)
            return self._look_at_chats()
        # As it was when the thread was read: a reply that ends in between is drawn at the next look.
        self._is_writing, self._problem = bool(key[0]), str(key[1])
        if before != (system := self._thread.settings.system):
            self._rewritten += not self._seat.instructions.is_of(system)
        self._sidebar = chat_list_html(self._chat_list(), date.today())
        self._chip = chip_html(self._services.documents.collections(), self._thread.settings.collections)
        self._follow(chat)
        self._key = key
        return True

    def _read_thread(self, chat: int) -> Thread:
        if not chat:
            return Thread(ChatVersion(), settings=self._seat.manner)
        thread = self._services.conversations.thread(chat, self._seat.newest)
        if self._seat.place.chat == chat:  # and not another one, opened while this was read
            self._seat.place = thread.version  # what the page is about to show is what it may change
        return thread

    def _leave(self, chat: int) -> None:
        if self._seat.place.chat == chat:
            self._seat.begin()
        if self._services.chat == chat:
            self._services.chat = 0

    def _chat_list(self) -> ChatList:
        seat, conversations = self._seat, self._services.conversations
        book = conversations.stores
        lines = book.summaries()
        found: tuple[ChatSearchResult, ...] = book.stored.search(seat.words) if seat.words.strip() else ()
        return ChatList(
            lines, seat.place.chat, frozenset(line.id for line in lines if conversations.is_writing(line.id)),
            book.stored.folders(), seat.words.strip(), found,
            tuple(title for _, title in seat.deleted), seat.listed, seat.unfolded,
        )  # fmt: skip

    def _follow(self, chat: int) -> None:
        newest = self._services.conversations.newest_reply(chat)
        if newest is None:
            self._following = None
        elif self._following is None or self._following.writing is not newest:
            self._following = Following(newest)
            self._following.read()

    def _seen(self) -> Seen:
        seat = self._seat
        return Seen(
            thread=self._thread,
            is_writing=self._is_writing,
            problem=self._problem,
            following=self._following,
            coloured=seat.coloured,
            is_private=is_private(chat) if (chat := self._thread.version.chat) else seat.is_private,
            sitting=seat.sitting,
            rewritten=self._rewritten,
            asked=self._services.asked_decoder(seat.place.chat),
            fit=self._meter.fit,
            first_read=self._meter.first_read,
            leaves_out=self._services.conversations.leaves_out(seat.place.chat),
            chip=self._chip,
        )


class _Meter:
    """Counts the chat and what is being typed, when either changed and not too often."""

    def __init__(self, services: Services, seconds: float) -> None:
        self.fit: ContextFit | None = None
        self.first_read = 0
        """The first message that stays where not all of them fit, else 0."""
        self._services = services
        self._seconds = seconds
        self._key: tuple[object, ...] = ()
        self._chat = 0
        self._due = 0.0

    def is_due(self, thread: Thread, seat: Seat, status: EngineStatus) -> bool:
        """Whether it is time to count."""
        # A reply that grows is counted at its end, unless its chat was opened meanwhile.
        is_growing = (
            self._services.conversations.is_writing(thread.version.chat) and thread.version.chat == self._chat
        )
        is_known = self._key == self._key_now(thread, seat, status)
        return not is_known and not is_growing and monotonic() >= self._due

    def look(self, thread: Thread, seat: Seat, status: EngineStatus) -> bool:
        """Whether the count changed."""
        if not self.is_due(thread, seat, status):
            return False
        self._key, self._chat = self._key_now(thread, seat, status), thread.version.chat
        self._due = monotonic() + self._seconds
        before = self.fit, self.first_read
        try:
            self.fit = self._count(thread, seat.draft, self._services.settings.options)
            self.first_read = self._first_read(thread, self.fit)
        except AppError:  # the chat is gone, or the model's template refuses it: that is said when it is sent
            self.fit, self.first_read = None, 0
        return (self.fit, self.first_read) != before

    def _first_read(self, thread: Thread, fit: ContextFit | None) -> int:
        if fit is None or not fit.fits_without_oldest or not thread.messages:
            return 0
        store = self._services.conversations.stores.of(thread.version.chat)
        left = store.path_ids(thread.version.chat, thread.messages[-1].id)[fit.left_out :]
        return left[0] if left else 0  # what is being typed may be all that fits

    def _key_now(self, thread: Thread, seat: Seat, status: EngineStatus) -> tuple[object, ...]:
        is_writing = self._services.conversations.is_writing(thread.version.chat)
        longest = self._services.settings.options.max_new_tokens
        return thread.version, seat.draft, status.model, longest, thread.settings, is_writing

    def _count(self, thread: Thread, draft: str, options: Options) -> ContextFit | None:
        chat, conversations = thread.version.chat, self._services.conversations
        store = conversations.stores.of(chat)
        if draft.strip():
            prompt = (*(store.texts_before(chat) if chat else ()), Message("user", draft))
        else:
            prompt = store.path_texts(chat) if chat else ()
        return conversations.fit(thread.settings, prompt, options) if prompt else None
