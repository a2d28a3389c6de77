"""Data, in the Settings view: the data folder, export and import of chats, backups, and deleting all chats."""

import os
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import gradio as gr
from markupsafe import Markup

from app.database.restoring import StagedBackup, discard_copies, require_backup
from app.errors import AppError
from app.system.programs import OWN_FOLDER, find_program, settled
from app.ui.frame.event_handlers import (
    LISTEN,
    UPLOADED,
    Actions,
    Notify,
    PageEvents,
    done_line,
    outcome_html,
    toast,
)
from app.ui.frame.file_export import BACKUP, CHATS
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_updates import CachedRenderer, Parts
from app.ui.frame.services import Services
from app.ui.frame.templates import render_macro
from app.ui.frame.uploads import discard, discard_all, text_of_upload, upload_at, use_uploads
from app.values.chat import ImportResult
from app.values.display_text import counted

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Chats and documents", ("*.sqlite*", "documents-inbox")),
    ("Backups", ("backups",)),
    ("Measurements of models", ("steps",)),
    ("Unfinished downloads", ("downloads",)),
    ("Logs", ("logs",)),
    ("Temporary files", ("gradio",)),
    ("Settings", ("settings.json*",)),
)
"""The parts of the data folder, each with the patterns of its files and subfolders."""
OTHER = "Other"
FILE_MANAGERS = {"darwin": "open", "win32": "explorer"}


def measure_folder(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each part of the folder that is not empty."""
    sizes = dict.fromkeys((*(name for name, _ in PARTS), OTHER), 0)
    for path in _children(folder):
        names = (part for part, patterns in PARTS if any(fnmatch(path.name, each) for each in patterns))
        sizes[next(names, OTHER)] += _size(path)
    return {name: size for name, size in sizes.items() if size}


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    """Return the size of a file or a folder; links are not followed."""
    try:
        if path.is_dir() and not path.is_symlink():
            return sum(map(_size, _children(path)))
        return path.lstat().st_size
    except OSError:
        return 0


def open_folder(folder: Path) -> str:
    """Start the file manager in the folder. Returns why it did not start, or ""."""
    try:
        if program := find_program(FILE_MANAGERS.get(sys.platform, "xdg-open")):
            subprocess.Popen(
                [program, str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=os.name == "posix", cwd=OWN_FOLDER, env=settled(os.environ),
            )  # fmt: skip
            return ""
    except OSError as error:
        return f"The file manager did not start ({error.strerror}). Open {folder} yourself."
    return f"Can't find a file manager. Open {folder} yourself."


class DataActions(Actions):
    """Handles the section's events; `backup` will be restored at the next start."""

    def __init__(
        self, services: Services, data_dir: Path, backup: StagedBackup, notify: Notify = toast
    ) -> None:
        super().__init__(services, notify)
        self._data_dir = data_dir
        self._backup = backup

    def folder(self) -> str:
        parts = measure_folder(self._data_dir)
        return render_macro("settings.html", "data_folder", folder=self._data_dir, parts=parts)

    def open_data_folder(self) -> None:
        if problem := open_folder(self._data_dir):
            self._notify(problem)

    def import_chats(self, path: str | None) -> str:
        """Import the chats of an exported file, and delete the upload. Returns what was done, as HTML."""
        stored = self._services.conversations.stores.stored

        def import_files(files: list[Path]) -> str:
            return import_summary(stored.import_json(text_of_upload(files)))

        return outcome_html(lambda: use_uploads([path], import_files)) if path else ""

    def ask_restore(self, path: str | None) -> tuple[str, str]:
        """Return the question whether to restore an uploaded file, or what is wrong with it, both as HTML."""
        if path is None:
            return "", ""
        problem = outcome_html(lambda: self._require_backup(path))
        name = Path(path).name
        question = render_macro("settings.html", "restore_question", path=path, name=name)
        return "" if problem else question, problem

    def answer_restore(self, event: gr.EventData) -> tuple[str, str]:
        """Keep the uploaded backup for the next start, or discard it. Returns "" in place of the question, and any
        problem."""
        do, _, path = pressed(event)

        def stage(files: list[Path]) -> None:
            if do == "restore":
                self._backup.stage(files[0])

        return "", outcome_html(lambda: use_uploads([path], stage) or "")

    def delete_chats(self) -> tuple[str, str]:
        """Delete all chats, their attached documents, and all backups and uploads. Returns the data folder and what
        was done, as HTML."""

        def delete() -> str:
            self._services.conversations.delete_all()
            self._services.documents.delete_attached(())
            discard_all(self._data_dir)
            self._backup.discard()
            discard_copies(self._data_dir)
            self._services.chat = 0
            return "All chats were deleted."

        done = outcome_html(delete)
        return self.folder(), delete_chats_html(done)

    def _require_backup(self, path: str) -> str:
        upload = upload_at(path)
        try:
            require_backup(upload, self._data_dir)
        except AppError:
            discard(upload)
            raise
        return ""


def import_summary(imported: ImportResult) -> str:
    new = f"Imported {counted(imported.new, 'chat')}."
    if not imported.known:
        return new
    return f"{new} {'One was' if imported.known == 1 else f'{imported.known:,} were'} here already."


def delete_chats_html(done: str = "") -> Markup:
    """Return the HTML of the question whether to delete all chats, collapsed, and of what was done."""
    return render_macro("settings.html", "delete_chats", done=Markup(done))


class ImportRenderer(CachedRenderer):
    def __init__(self, progress: Callable[[], tuple[int, int]]) -> None:
        self._progress = progress

    def inputs(self) -> tuple[int, int]:
        return self._progress()

    def draw(self, inputs: tuple[int, int]) -> Parts:
        done, total = inputs
        html = render_macro("settings.html", "import_progress", done=done, total=total) if total else ""
        return {"import-progress": html}


def build_data(
    services: Services, data_dir: Path, backup: StagedBackup, opening: gr.Button, events: PageEvents
) -> None:
    """Build the section inside the current Blocks; `opening` leads to the Settings view. The question whether to
    delete all chats has its own component, so that it stays open when the folder's sizes are drawn again."""
    actions = DataActions(services, data_dir, backup)
    with gr.Column(elem_classes="part"):
        exports = render_macro("settings.html", "exports", address=CHATS)
        gr.HTML(exports, elem_id="export-chats", js_on_load=None)
        importing = _upload("Import…", "import-chats")
        gr.HTML(elem_id="import-progress", js_on_load=None)
        imported = done_line("imported")
    with gr.Column(elem_classes="part"):
        backups = render_macro("settings.html", "backups", address=BACKUP)
        gr.HTML(backups, elem_id="back-up", js_on_load=None)
        restoring = _upload("Restore…", "restore-backup")
        refused = done_line("not-restored")
        question = gr.HTML(elem_id="restore-question", elem_classes="asks", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>Data folder</h3>", js_on_load=None)
        folder = gr.HTML(elem_id="data-folder", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        delete = gr.HTML(delete_chats_html(), elem_id="delete-chats", js_on_load=LISTEN)
    events.on(folder.click, actions.open_data_folder)
    events.on(importing.upload, actions.import_chats, importing, imported, **UPLOADED)
    events.on(restoring.upload, actions.ask_restore, restoring, [question, refused], **UPLOADED)
    events.on(question.click, actions.answer_restore, outputs=[question, refused])
    events.on(delete.click, actions.delete_chats, outputs=[folder, delete])
    events.on(opening.click, actions.folder, outputs=folder)


def _upload(label: str, name: str) -> gr.UploadButton:
    # No file types are given to Gradio, because its message about a wrong file does not say what to do.
    # assets/ui/settings.js sets which files the chooser shows first.
    return gr.UploadButton(label, elem_id=name, size="sm", scale=0, min_width=0)
