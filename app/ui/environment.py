"""The environment that Gradio reads while it is imported; set once, by main, before anything else."""

from collections.abc import MutableMapping
from pathlib import Path

from app.ui.uploads import uploads_dir


def prepare_environment(environ: MutableMapping[str, str], data_dir: Path) -> None:
    """Drop every GRADIO_* setting of the shell, turn telemetry off, keep temporary files in `data_dir`.

    A GRADIO_SHARE or GRADIO_ALLOWED_PATHS left from another program must not open this one."""
    for name in [name for name in environ if name.startswith("GRADIO_")]:
        del environ[name]
    environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    # Else Gradio sums up all events in a pandas table after each event, for a page that is closed here.
    environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(2**31)
    environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
    environ["GRADIO_TEMP_DIR"] = str(uploads_dir(data_dir))
    environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
