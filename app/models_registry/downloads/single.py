"""One download for a caller that waits for it: no line, no pause, nothing remembered."""

from pathlib import Path

from app.messages import Progress
from app.models_registry.downloads.child import Child, Failed, Installed, Moved, ended_unexpectedly, job_of
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.ids import HubId


def download(hub: Hub, wanted: HubId, progress: Progress) -> Path:
    """Fetch what is missing of the model and return its folder; what `progress` raises ends it at once."""
    progress(f"Asking the hub for {wanted.repo}", 0, 0)
    plan = hub.plan(wanted)
    with Child(job_of(hub, wanted, plan)) as child:
        for message in child.messages():
            match message:
                case Moved(done, note):
                    progress(note or f"Downloading {wanted.repo}", sum(done.values()), plan.size)
                case Installed(folder):
                    return folder
                case Failed():
                    raise message.error()
    raise ended_unexpectedly(wanted.repo)
