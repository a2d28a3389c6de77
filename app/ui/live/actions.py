"""What the X-ray's controls do. They translate between the page and what is watched, and nothing else."""

from datetime import datetime
from functools import partial
from typing import Any, cast

import gradio as gr

from app.ui.live.exporting import FORMAT, exported
from app.ui.live.port import Seated, Watched
from app.ui.live.xray import key, xray
from app.ui.live.xray_view import MOVES, Move, XrayView, moved
from app.ui.saving import file_html


class XrayActions:
    """The events of every page's X-ray. No state of its own."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def act(self, view: XrayView, seat: Seated, event: gr.EventData) -> tuple[Any, Any, Any]:
        """Do what a control says: the view, its picture, and a file to save.

        `do` is a move, `draw` or `export`; `value` the step on the screen, `name` the key of its picture."""
        do, name, value = (str(event._data.get(part) or "") for part in ("do", "name", "value"))
        chat = seat.place.chat
        if do == "export":
            return gr.skip(), gr.skip(), self._file(chat)
        if do not in (*MOVES, "draw"):
            return gr.skip(), gr.skip(), gr.skip()
        return (*self._draw(view, chat, do, _number(value), name), gr.skip())

    def _draw(self, view: XrayView, chat: int, do: str, on_screen: int, drawn: str) -> tuple[Any, Any]:
        recording = self._watched.recording(chat)
        now = view if do == "draw" else moved(cast(Move, do), on_screen, recording)
        if do == "draw" and key(now, recording) == drawn:
            return gr.skip(), gr.skip()
        # Drawing while the newest step is followed leaves the view alone: the person may have paused meanwhile.
        return gr.skip() if do == "draw" else now, xray(now, recording, partial(self._watched.texts, chat))

    def _file(self, chat: int) -> str:
        steps = exported(self._watched.recording(chat), partial(self._watched.texts, chat))
        return file_html(f"{FORMAT}-{datetime.now():%Y%m%d-%H%M%S}.json", steps, "application/json")


def _number(value: str) -> int:
    return int(value) if value.isdecimal() else 0
