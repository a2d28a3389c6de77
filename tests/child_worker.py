"""What a child process does in tests: says its job, more of it, and how it was started."""

import os
from time import sleep

from filelock import FileLock

from app.system.child_process import Say, serve


def work(job: bytes, say: Say) -> None:
    match job:
        case b"noisy\n":
            print("a library's warning", end="")
            os.write(1, b'{"is": "ReadEnded"}\n')
            os.system("echo from a program of its own")
            say(b"heard\n")
        case b"half\n":
            say(b"whole\nhal")
        case b"endless\n":
            say(b"begun\n")
            sleep(600)
        case b"holding\n":
            with FileLock(os.environ["GIVEN"]):
                say(b"held\n")
                sleep(600)
        case _:
            say(job)
            say(os.environ.get("GIVEN", "nothing").encode() + b"\n")


if __name__ == "__main__":
    serve(work)
