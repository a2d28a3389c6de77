"""Finds and runs programs of the machine, so that files in the current folder have no influence.

The app may be started in a folder of downloads. So programs are searched on PATH only, and run in a folder of the
app, with environment variables that name absolute paths.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Which = Callable[[str], str | None]
"""Finds a program by its name. Returns its path, or None if it is not installed."""

COMPILERS = ("cc", "gcc", "clang")
SECONDS = 5.0
"""Seconds that a program may take by default."""
OWN_FOLDER = Path(__file__).parents[1]
"""The folder in which the app's child processes and other programs are started."""
SEARCHED = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH", "CPATH",
    "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH",
)  # fmt: skip
"""Variables that list folders. In most of them an empty entry means the current folder."""
PLACES = (
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "HF_ASSETS_CACHE", "HF_MODULES_CACHE",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "TEMP", "TMP", "PYTHONPYCACHEPREFIX",
    "PYTHONUSERBASE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC",
    "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OLLAMA_MODELS",
)  # fmt: skip
"""Variables that name a file or a folder."""


def settled(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with absolute paths, so that it means the same in every folder.

    The current folder is removed from lists of folders, and two variables keep Python and Windows from searching
    the current folder."""
    lists = {name: _searched(environ[name]) for name in SEARCHED if name in environ}
    named = {name: environ[name] for name in PLACES if environ.get(name, "").strip()}
    paths = {name: absolute for name, path in named.items() if (absolute := _settled(path))}
    if lists.get("PATH") == "":
        lists["PATH"] = os.defpath  # an empty PATH means the current folder
    # Python with `-c` or `-m` searches the current folder before its own library. Windows searches it before PATH.
    return {**environ, **lists, **paths, "PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}


def find_program(name: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the path of a program; None if no absolute folder on PATH has it. `environ` may give another PATH."""
    endings = (".exe", ".cmd", ".bat") if sys.platform == "win32" else ("",)
    folders = (Path(entry) for entry in os.get_exec_path(environ))
    files = (folder / f"{name}{end}" for folder in folders if folder.is_absolute() for end in endings)
    return next((str(file) for file in files if file.is_file() and os.access(file, os.X_OK)), None)


def find_compiler(which: Which = find_program) -> str | None:
    return next(filter(None, map(which, COMPILERS)), None)


def answer_of(name: str, *arguments: str, seconds: float = SECONDS, must_succeed: bool = True) -> str:
    """Run a program by its name, as `program_output` does; "" if it is missing."""
    program = find_program(name)
    return program_output([program, *arguments], seconds, must_succeed) if program else ""


def program_output(command: Sequence[str], seconds: float = SECONDS, must_succeed: bool = True) -> str:
    """Run a command and return what it prints; "" if it cannot be run or takes too long.

    With `must_succeed`, returns "" for an exit code other than 0, too. No console appears on Windows."""
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)
    try:
        answer = subprocess.run(
            command, capture_output=True, timeout=seconds, check=must_succeed, creationflags=hidden,
            cwd=OWN_FOLDER, env=settled(os.environ), stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.decode(errors="replace")


def _searched(folders: str) -> str:
    """Return a list of folders as absolute paths, without the current folder."""
    entries = (entry for entry in folders.split(os.pathsep) if entry.strip())
    return os.pathsep.join(filter(None, map(_settled, entries)))


def _settled(path: str) -> str:
    """Return the absolute path; "" for the current folder, or if the current folder was deleted.

    A path that begins with "~" is returned unchanged."""
    if path.startswith("~") or Path(path.strip('"')).is_absolute():
        return path
    try:
        return "" if Path(path).resolve() == Path.cwd() else str(Path(path).absolute())
    except OSError:
        return ""
