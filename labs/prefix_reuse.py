"""Measures the time to the first token in each turn of a growing chat, with the previous turn's cache and without.

python -m labs.prefix_reuse --model demo --turns 10
"""

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from app.engine.loading.parts import no_progress
from app.engine.session.session import Session
from app.models_registry.locate import locate
from app.values.messages import Finished, Message, ModelChoice, Options, Piece, Request, Statistics
from tools.prompts import questions

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="demo")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=60, help="Tokens of each reply.")
    options = parser.parse_args()
    choice = ModelChoice(options.model)
    with TemporaryDirectory() as notes:
        session = Session(locate, Path(notes))
        print("| turn | prompt tokens | read anew | first token | cold |\n|---|---|---|---|---|")  # noqa: T201
        chat: list[Message] = []
        for turn, (question,) in zip(range(1, options.turns + 1), questions(1), strict=False):
            chat.append(question)
            warm, text = _ask(session, Request(choice, tuple(chat), Options(max_new_tokens=options.tokens)))
            colds = [_ask(session, Request(choice, tuple(chat), Options(max_new_tokens=1), is_cold=True))[0]
                     for _ in range(ROUNDS)]  # fmt: skip
            _ask(session, Request(choice, tuple(chat), Options(max_new_tokens=options.tokens)))
            chat.append(Message("assistant", text or "Yes."))
            cold = median(one.time_to_first_token for one in colds)
            print(  # noqa: T201
                f"| {turn} | {warm.prompt_tokens} | {warm.prompt_tokens - warm.reused_tokens} | "
                f"{1000 * warm.time_to_first_token:.1f} ms | {1000 * cold:.1f} ms |"
            )


def _ask(session: Session, request: Request) -> tuple[Statistics, str]:
    events = list(session.events(request, no_progress))
    text = "".join(event.text for event in events if isinstance(event, Piece))
    last = events[-1]
    assert isinstance(last, Finished)
    return last.statistics, text


if __name__ == "__main__":
    main()
