"""The decoders, a file each: generators that yield a reply's steps. All write the same text."""

from functools import partial

from app.engine.decoders.jacobi import jacobi
from app.engine.decoders.lookahead_decoder import ReplyContext, make_lookahead
from app.engine.decoders.plain import plain
from app.engine.decoders.prompt_lookup import prompt_lookup
from app.engine.runner.step import Decoder
from app.values.messages import Decoding


def make_decoder(decoding: Decoding, known: ReplyContext | None = None) -> Decoder:
    match decoding.decoder:
        case "plain":
            return plain
        case "prompt-lookup":
            return prompt_lookup
        case "jacobi":
            return partial(jacobi, width=decoding.window)
        case "lookahead" | "auto":
            return make_lookahead(decoding, known)
