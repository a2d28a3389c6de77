"""The process of a rank above 0 that `--devices` asks for: it serves until the app ends."""

import json

from app.system.child_process import Say, serve


def main() -> None:
    """Say that torch is there, then meet the others."""
    serve(_work)


def _work(request: bytes, say: Say) -> None:
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    from app.engine.parallel.meeting import connect
    from app.engine.parallel.serving import RankServer

    wanted = json.loads(request)
    say(b"ready\n")
    place, rank, size = wanted["store"], wanted["rank"], wanted["size"]
    RankServer(connect(FileStore(place, size), rank, size)).serve()


if __name__ == "__main__":
    main()
