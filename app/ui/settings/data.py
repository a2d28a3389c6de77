"""Data, in the Settings view: the data folder, export and import of chats, backups, and deleting all chats."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import gradio as gr

from app.database.backups import discard_copies, stage
from app.errors import ImportBroken
from app.ui.frame.error_handling import Notify, try_or_notify
from app.ui.frame.file_export import BACKUP, CHATS
from app.ui.frame.page_events import LISTEN, UPLOADED, PageEvents
from app.ui.frame.services import Services
from app.ui.frame.uploads import discard, discard_all, upload_at
from app.ui.settings.data_folder import measure_folder, open_folder
from app.ui.settings.render import backups_html, delete_chats_html, exports_html, folder_html
from app.values.chat import ImportResult
from app.values.display_text import counted


class DataActions:
    """The part's event handlers; `report` tells what was done, `notify` what went wrong."""

    def __init__(self, services: Services, data_dir: Path, notify: Notify, report: Notify) -> None:
        self._services = services
        self._data_dir = data_dir
        self._notify = notify
        self._report = report
        self._staging = Lock()

    def folder(self) -> str:
        """The data folder and its parts, as they are now."""
        return folder_html(self._data_dir, measure_folder(self._data_dir))

    def open_data_folder(self) -> None:
        """Open the data folder in the system's file manager."""
        if problem := open_folder(self._data_dir):
            self._notify(problem)

    def import_chats(self, path: str | None) -> None:
        """Import the chats of an exported file, and delete the upload."""
        self._with_upload(path, self._import)

    def restore_backup(self, path: str | None) -> None:
        """Check an uploaded backup, delete the upload, and have the next start put it in place."""
        self._with_upload(path, self._stage)

    def delete_chats(self) -> tuple[str, str]:
        """Delete all chats. Returns the data folder, and the closed question."""
        self._try(self._delete_chats)
        return self.folder(), delete_chats_html()

    def _with_upload(self, path: str | None, use: Callable[[Path], None]) -> None:
        upload = self._try(lambda: upload_at(path)) if path is not None else None
        if upload is None:
            return
        try:
            self._try(lambda: use(upload))
        finally:
            discard(upload)

    def _import(self, upload: Path) -> None:
        try:
            # Some editors put a byte order mark before a text that they save.
            text = upload.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise ImportBroken(f"The file can't be read ({error.strerror}). Choose it again.") from error
        imported = self._services.conversations.stores.stored.import_json(text)
        self._report(import_summary(imported))

    def _stage(self, backup: Path) -> None:
        with self._staging:  # of two backups that are chosen at once, one after the other
            stage(backup, self._data_dir)
        self._report("The backup is ready. Quit Foresight and start it again to restore it.")

    def _delete_chats(self) -> None:
        self._services.conversations.delete_all()
        self._services.documents.delete_attached(())
        discard_all(self._data_dir)
        discard_copies(self._data_dir)
        self._services.chat = 0
        self._report("All chats were deleted.")

    def _try(self, action: Callable[[], Any]) -> Any:
        """The action's result, or None if it failed, after the person was told why."""
        return try_or_notify(self._notify, action, None)


def import_summary(imported: ImportResult) -> str:
    """Say what was imported."""
    new = f"Imported {counted(imported.new, 'chat')}."
    if not imported.known:
        return new
    return f"{new} {'One was' if imported.known == 1 else f'{imported.known:,} were'} here already."


@dataclass(frozen=True, slots=True)
class DataControls:
    """The components. The question stands apart from the folder, so that it stays when the sizes are drawn anew."""

    folder: gr.HTML
    importing: gr.UploadButton
    restoring: gr.UploadButton
    delete: gr.HTML

    def connect(self, actions: DataActions, events: PageEvents) -> None:
        """Join events with actions."""
        events.on(self.folder.click, actions.open_data_folder)
        events.on(self.importing.upload, actions.import_chats, self.importing, **UPLOADED)
        events.on(self.restoring.upload, actions.restore_backup, self.restoring, **UPLOADED)
        events.on(self.delete.click, actions.delete_chats, outputs=[self.folder, self.delete])


def build_data_controls() -> DataControls:
    """Build the part inside the current Blocks."""
    with gr.Column(elem_classes="part"):
        gr.HTML(exports_html(CHATS), elem_id="export-chats", js_on_load=None)
        importing = _upload("Import…", "import-chats", ".json")
        gr.HTML(elem_id="import-progress", js_on_load=None)
    with gr.Column(elem_classes="part"):
        gr.HTML(backups_html(BACKUP), elem_id="back-up", js_on_load=None)
        restoring = _upload("Restore…", "restore-backup", ".sqlite")
    with gr.Column(elem_classes="part"):
        gr.HTML("<h3>Data folder</h3>", js_on_load=None)
        folder = gr.HTML(elem_id="data-folder", js_on_load=LISTEN)
    with gr.Column(elem_classes="part"):
        delete = gr.HTML(delete_chats_html(), elem_id="delete-chats", js_on_load=LISTEN)
    return DataControls(folder, importing, restoring, delete)


def _upload(label: str, name: str, ending: str) -> gr.UploadButton:
    return gr.UploadButton(label, elem_id=name, size="sm", scale=0, min_width=0, file_types=[ending])
