"""Data, in the Settings view: the data folder, export and import of chats, backups, and deleting all chats."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import gradio as gr
from markupsafe import Markup

from app.database.restoring import StagedBackup, discard_copies, require_backup
from app.errors import AppError
from app.system.programs import OWN_FOLDER, find_program, settled
from app.ui.frame.event_handlers import LISTEN, UPLOADED, Notify, PageEvents, done_line, outcome_html, toast
from app.ui.frame.file_export import BACKUP, CHATS
from app.ui.frame.gradio_internals import pressed
from app.ui.frame.page_stream import Parts
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
"""The parts of the data folder, and the patterns of the names at its top that belong to each."""
OTHER = "Other"
FILE_MANAGERS = {"darwin": "open", "win32": "explorer"}


@dataclass(frozen=True, slots=True)
class FolderPart:
    """A part of the data folder, and its size in bytes."""

    name: str
    size: int


def measure_folder(folder: Path) -> list[FolderPart]:
    """Return the parts of the folder that are not empty. Files deleted in the meantime are not counted."""
    sizes = dict.fromkeys((*(name for name, _ in PARTS), OTHER), 0)
    for path in _children(folder):
        names = (part for part, patterns in PARTS if any(fnmatch(path.name, each) for each in patterns))
        sizes[next(names, OTHER)] += _size(path)
    return [FolderPart(name, size) for name, size in sizes.items() if size]


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


def file_manager_command(platform: str, folder: Path) -> list[str]:
    """Return the command that shows a folder in the system's file manager."""
    return [FILE_MANAGERS.get(platform, "xdg-open"), str(folder)]


def open_folder(folder: Path) -> str:
    """Show the folder in the file manager. Returns why that failed, or ""."""
    name, *arguments = file_manager_command(sys.platform, folder)
    try:
        if program := find_program(name):
            subprocess.Popen(
                [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=os.name == "posix", cwd=OWN_FOLDER, env=settled(os.environ),
            )  # fmt: skip
            return ""
    except OSError as error:
        return f"The file manager did not start ({error.strerror}). Open {folder} yourself."
    return f"Can't find a file manager. Open {folder} yourself."


class DataActions:
    """The section's event handlers. `notify` shows problems; `backup` is the backup that waits for the next
    start."""

    def __init__(self, services: Services, data_dir: Path, backup: StagedBackup, notify: Notify) -> None:
        self._services = services
        self._data_dir = data_dir
        self._backup = backup
        self._notify = notify

    def folder(self) -> str:
        """Return the data folder and its parts, as they are now."""
        return folder_html(self._data_dir, measure_folder(self._data_dir))

    def open_data_folder(self) -> None:
        """Open the data folder in the system's file manager."""
        if problem := open_folder(self._data_dir):
            self._notify(problem)

    def import_chats(self, path: str | None) -> str:
        """Import the chats of an exported file, and delete the upload. Returns what was done, as HTML."""
        return outcome_html(lambda: use_uploads([path], self._import)) if path else ""

    def ask_restore(self, path: str | None) -> tuple[str, str]:
        """Return the question whether to restore an uploaded file, or what is wrong with it, both as HTML."""
        if path is None:
            return "", ""
        problem = outcome_html(lambda: self._require_backup(path))
        name = Path(path).name
        return "" if problem else render_macro(
            "settings.html", "restore_question", path=path, name=name
        ), problem

    def answer_restore(self, event: gr.EventData) -> tuple[str, str]:
        """Keep the backup for the next start, or forget it. Returns "" as the question, and any problem as HTML."""
        do, _, path = pressed(event)

        def stage(files: list[Path]) -> None:
            if do == "restore":
                self._backup.stage(files[0])

        return "", outcome_html(lambda: use_uploads([path], stage) or "")

    def delete_chats(self) -> tuple[str, str]:
        """Delete all chats with attached documents, uploads and backups.

        Returns the HTML of the data folder, and that of the collapsed question with what was done."""
        done = outcome_html(self._delete_chats)
        return self.folder(), delete_chats_html(done)

    def _require_backup(self, path: str) -> str:
        upload = upload_at(path)
        try:
            require_backup(upload, self._data_dir)
        except AppError:
            discard(upload)
            raise
        return ""

    def _import(self, files: list[Path]) -> str:
        return import_summary(self._services.conversations.stores.stored.import_json(text_of_upload(files)))

    def _delete_chats(self) -> str:
        self._services.conversations.delete_all()
        self._services.documents.delete_attached(())
        discard_all(self._data_dir)
        self._backup.discard()
        discard_copies(self._data_dir)
        self._services.chat = 0
        return "All chats were deleted."


def import_summary(imported: ImportResult) -> str:
    """Describe what was imported in a sentence."""
    new = f"Imported {counted(imported.new, 'chat')}."
    if not imported.known:
        return new
    return f"{new} {'One was' if imported.known == 1 else f'{imported.known:,} were'} here already."


def folder_html(folder: Path, parts: Sequence[FolderPart]) -> Markup:
    total = sum(part.size for part in parts)
    return render_macro("settings.html", "data_folder", folder=folder, parts=parts, total=total)


def delete_chats_html(done: str = "") -> Markup:
    """Return the HTML of the question whether to delete all chats, collapsed, and of what was done."""
    return render_macro("settings.html", "delete_chats", done=Markup(done))


class ImportRenderer:
    """Renders the progress of an import of chats, for one page."""

    def __init__(self, progress: Callable[[], tuple[int, int]]) -> None:
        self._progress = progress
        self._shown = (0, 0)
        self._parts: Parts = {"import-progress": ""}

    def render(self) -> Parts:
        """Return the part; the same object if nothing changed."""
        progress = self._progress()
        if progress != self._shown:
            self._shown = done, total = progress
            html = render_macro("settings.html", "import_progress", done=done, total=total) if total else ""
            self._parts = {"import-progress": html}
        return self._parts


def build_data(
    services: Services, data_dir: Path, backup: StagedBackup, opening: gr.Button, events: PageEvents
) -> None:
    """Build the section inside the current Blocks, and connect its events; `opening` leads to the Settings view.

    The question whether to delete all chats has a component of its own, so that it stays open when the folder's
    sizes are drawn again."""
    actions = DataActions(services, data_dir, backup, toast)
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
    # No file types are given to Gradio, because its message about a wrong file does not say what to do. What the
    # chooser shows first is in assets/ui/settings.js.
    return gr.UploadButton(label, elem_id=name, size="sm", scale=0, min_width=0)
