"""Compares the speed of our download with that of the hub client, in turn, from the same small hub on this machine.

Both downloads are processes, which are timed from their start to their end, and begin with an empty cache. Ours
also checks the files' checksums, which the client does not.
"""

import argparse
import os
import subprocess
import tempfile
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter

from app.models_registry.downloads.process import DownloadFinished, DownloadProcess, DownloadRequest
from app.models_registry.hub.hub import Hub
from app.models_registry.hub.hub_id import HubId
from app.system.child_process import python_command

REPO = "org/random"
THEIRS = "import sys, huggingface_hub as h; h.snapshot_download(sys.argv[1], cache_dir=sys.argv[2])"


def serve(size: int, shards: int, pipe: Connection) -> None:
    """Serve a hub with one model of random weights, until the pipe receives a message."""
    from tests.models_registry.hub_server import FakeHub, git_sha1, running, sha256

    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    names = ["model.safetensors"] if shards == 1 else names
    files = {name: os.urandom(size // shards) for name in names}
    files |= {"config.json": b"{}", "tokenizer.json": b"[]"} | index(names)
    for content in files.values():
        sha256(content), git_sha1(content)  # a real hub knows the checksums beforehand
    with running(FakeHub({REPO: files})) as hub:
        pipe.send(hub.endpoint)
        pipe.recv()


def index(names: list[str]) -> dict[str, bytes]:
    """Return the index file of a model in several shards, by its name; {} for one shard."""
    return {"model.safetensors.index.json": b"{}"} if len(names) > 1 else {}


def ours(endpoint: str, cache: Path) -> None:
    with DownloadProcess(DownloadRequest(HubId(REPO), None, Hub(endpoint, cache))) as child:
        last = list(child.messages())[-1]
    if not isinstance(last, DownloadFinished):
        raise SystemExit(f"the download failed: {last}")


def theirs(endpoint: str, cache: Path) -> None:
    """Download as `hf download` does, but over plain HTTP, as our download does."""
    quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_ENDPOINT": endpoint}
    subprocess.run(python_command("-c", THEIRS, REPO, str(cache)), env={**os.environ, **quiet}, check=True)


def fetched(cache: Path, megabytes: int) -> float:
    """Return the megabytes of downloaded weights. Raises SystemExit if it is not the requested number."""
    downloaded = sum(file.stat().st_size for file in cache.glob("*/snapshots/*/*.safetensors")) / 10**6
    if round(downloaded) != megabytes:
        raise SystemExit(f"{downloaded:.1f} of {megabytes} megabytes were downloaded")
    return downloaded


def main() -> None:
    """Print each round's megabytes per second, and the medians' ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    here, there = get_context("spawn").Pipe()
    hub = get_context("spawn").Process(
        target=serve, args=(given.megabytes * 10**6, given.shards, there), daemon=True
    )
    hub.start()
    endpoint = here.recv()
    speeds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(given.rounds):
        for fetch in (ours, theirs):
            with tempfile.TemporaryDirectory() as cache:
                begin = perf_counter()
                fetch(endpoint, Path(cache))
                seconds = perf_counter() - begin
                speeds[fetch.__name__].append(fetched(Path(cache), given.megabytes) / seconds)
    here.send("end")
    for name, values in speeds.items():
        print(f"{name}: median {median(values):.0f} MB/s of", *(f"{value:.0f}" for value in values))
    print(f"ours / theirs: {median(speeds['ours']) / median(speeds['theirs']):.2f}")


if __name__ == "__main__":
    main()
