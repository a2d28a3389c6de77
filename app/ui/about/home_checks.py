"""Is all well at home? The disk, the database, the engine, and whom the app talked to."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.errors import StoreError
from app.messages import EngineStatus
from app.model_messages import gigabytes
from app.outside import Contact, Outside
from app.ui.about.check import Check, judged
from app.ui.about.sockets import Socket
from app.ui.app_context import Database

LEAST_FREE = 1_000_000_000
ELSEWHERE = "Downloads run in processes of their own and talk to the hub alone."


def check_outside(outside: Outside, sockets: list[Socket] | None) -> Check:
    """Whom this process asked outside this machine since it started, and whom it is connected with now."""
    name = "Nobody outside was asked unless you wanted it"
    contacts = outside.contacts()
    strangers = [contact for contact in contacts if not contact.why]
    now = [one.other for one in sockets or () if not one.is_listening and not outside.is_here(one.other)]
    if strangers:
        return Check(
            name, "bad", f"Asked for no reason that Foresight knows: {_listed(strangers)}. Report this."
        )
    if contacts:
        return Check(name, "good", f"Asked since the start: {_listed(contacts)}. {ELSEWHERE}")
    if now:
        return Check(
            name, "bad", f"A library of this process is connected with {', '.join(sorted(set(now)))}."
        )
    looked = " No socket of this process leads outside now." if sockets is not None else ""
    return Check(name, "good", f"No request left this machine since the start.{looked} {ELSEWHERE}")


def _listed(contacts: Sequence[Contact]) -> str:
    return "; ".join(f"{one.host} ({_times(one)}{f', {one.why}' if one.why else ''})" for one in contacts)


def _times(contact: Contact) -> str:
    if not contact.times:
        return "its name was looked up"
    return "once" if contact.times == 1 else f"{contact.times} times"


def check_disk(folder: Path) -> Check:
    """The data folder can be written, and there is room."""
    name = "The data folder can be written"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"foresight")
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(
            name, "bad", f"{folder} cannot be written ({error.strerror}): free some space, or move it."
        )
    problem = f"Only {gigabytes(free)} are free on its disk: free some space." if free < LEAST_FREE else ""
    return judged(name, problem, f"A file was written; {gigabytes(free)} are free.")


def check_database(database: Database | None) -> Check:
    """The file of chats makes sense."""
    name = "Chats are whole"
    if database is None:
        return Check(name, "unknown", "No chats are kept yet.")
    try:
        return judged(name, database.is_healthy(), "The database passed its own check.")
    except StoreError as error:  # it is busy, or has no room to check in: that says nothing about the chats
        return Check(name, "unknown", str(error))


def check_engine(status: EngineStatus) -> Check:
    """The engine's thread answers."""
    name = "The engine answers"
    if status.phase in ("failed", "closed"):
        return Check(name, "bad", status.note or "It has no model: load one under Model.")
    model = f" with {status.model.name}" if status.model else ""
    return Check(name, "good", f"It is {status.phase}{model}.")
