"""Programs of the machine: where they lie, what they answer, and variables that mean the same in every folder.

Whoever starts the app in a folder of downloads trusts none of its files. So a program is taken from PATH alone, and
never from the current folder; it runs in a folder of the app, where nothing lies that it could take for its own.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

Which = Callable[[str], str | None]
"""The name of a program -> where it lies, if it does."""

COMPILERS = ("cc", "gcc", "clang")
SECONDS = 5.0
OWN_FOLDER = Path(__file__).parents[1]
"""Where the app's children and other programs are started."""
SEARCHED = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LIBRARY_PATH", "COMPILER_PATH", "CPATH",
    "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH",
)  # fmt: skip
"""Variables that list folders; programs take an empty entry of most of them for the current folder."""
PLACES = (
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "HF_ASSETS_CACHE", "HF_MODULES_CACHE",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "TEMP", "TMP", "PYTHONPYCACHEPREFIX",
    "PYTHONUSERBASE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC",
    "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OLLAMA_MODELS",
)  # fmt: skip
"""Variables that name a file or a folder."""


def settled(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns variables that mean the same wherever a process is started, and make it search no current folder."""
    lists = {name: _searched(environ[name]) for name in SEARCHED if name in environ}
    named = {name: environ[name] for name in PLACES if environ.get(name, "").strip()}
    places = {name: place for name, path in named.items() if (place := _settled(path))}
    if lists.get("PATH") == "":
        lists["PATH"] = os.defpath  # an empty one means the current folder
    # Python puts the current folder before its own library for `-c` and `-m`; Windows before the folders of PATH.
    return {**environ, **lists, **places, "PYTHONSAFEPATH": "1", "NoDefaultCurrentDirectoryInExePath": "1"}


def find_program(name: str) -> str | None:
    """Returns where the program of this name lies on PATH; None if it is in none of its absolute folders."""
    ending = ".exe" if sys.platform == "win32" else ""
    folders = (Path(entry) for entry in os.get_exec_path())
    files = (folder / f"{name}{ending}" for folder in folders if folder.is_absolute())
    return next((str(file) for file in files if file.is_file() and os.access(file, os.X_OK)), None)


def find_compiler(which: Which = find_program) -> str | None:
    """Returns where the machine's first C compiler lies; None if there is none."""
    return next(filter(None, map(which, COMPILERS)), None)


def answer_of(name: str, *arguments: str, seconds: float = SECONDS) -> str:
    """Returns what a program prints; "" where it is missing, fails, or takes too long."""
    program = find_program(name)
    if program is None:
        return ""
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # on Windows a console would flash up
    try:
        answer = subprocess.run(
            [program, *arguments], capture_output=True, timeout=seconds, check=True, creationflags=hidden,
            cwd=OWN_FOLDER, env=settled(os.environ),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.decode(errors="replace")


def _searched(folders: str) -> str:
    """Returns a list of folders without the current one."""
    entries = (entry for entry in folders.split(os.pathsep) if entry.strip())
    return os.pathsep.join(filter(None, map(_settled, entries)))


def _settled(path: str) -> str:
    """Returns a path as an absolute one; "" for the current folder, or where that is gone."""
    if path.startswith("~") or Path(path.strip('"')).is_absolute():
        return path
    try:
        return "" if Path(path).resolve() == Path.cwd() else str(Path(path).absolute())
    except OSError:
        return ""
