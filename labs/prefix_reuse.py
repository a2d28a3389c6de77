"""Measures the time to the first token in each turn of a growing chat, with the previous turn's cache and without.

python -m labs.prefix_reuse --model demo --turns 10
"""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from app.engine.session.session import Session
from app.models_registry.locate import locate
from app.values.messages import Message, ModelChoice, Options, Request
from tools.prompts import questions
from tools.same_text import written

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
        print("| turn | prompt tokens | read anew | first token | cold |\n|---|---|---|---|---|")
        chat: list[Message] = []
        for turn, (question,) in zip(range(1, options.turns + 1), questions(1), strict=False):
            chat.append(question)
            request = Request(choice, tuple(chat), Options(max_new_tokens=options.tokens))
            first = replace(request, options=Options(max_new_tokens=1), is_cold=True)
            reply = written(session, request)
            colds = [written(session, first).statistics for _ in range(ROUNDS)]
            written(session, request)
            chat.append(Message("assistant", reply.text or "Yes."))
            warm, cold = reply.statistics, median(one.time_to_first_token for one in colds)
            print(
                f"| {turn} | {warm.prompt_tokens} | {warm.prompt_tokens - warm.reused_tokens} | "
                f"{1000 * warm.time_to_first_token:.1f} ms | {1000 * cold:.1f} ms |"
            )


if __name__ == "__main__":
    main()
