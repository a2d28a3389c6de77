"""Every decoder by its name: the one place that knows them all."""

from app.engine.jacobi import make_jacobi
from app.engine.lookahead import make_lookahead
from app.engine.lookahead.factory import Known
from app.engine.plain import plain
from app.engine.prompt_lookup import prompt_lookup
from app.engine.step import Decoder
from app.messages import Decoding


def make_decoder(decoding: Decoding, known: Known | None = None) -> Decoder:
    """The decoder that is asked for."""
    match decoding.decoder:
        case "plain":
            return plain
        case "prompt-lookup":
            return prompt_lookup
        case "jacobi":
            return make_jacobi(decoding.window)
        case "lookahead" | "auto":
            return make_lookahead(decoding, known)
