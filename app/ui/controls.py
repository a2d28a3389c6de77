"""The settings as they stand in the page's controls, and as the values they mean."""

from dataclasses import replace
from typing import Any, NamedTuple

from app.errors import BadOption, impossible_values
from app.messages import DecoderName, Decoding, ModelChoice, Options, Sampling


class OptionControls(NamedTuple):
    """What the option controls hold, in the order in which events pass them. An emptied box holds None."""

    lookahead: bool
    temperature: float | None
    max_new_tokens: int | None
    seed: int | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    decoder: DecoderName
    rows: int | None
    window: int | None
    ngram: int | None
    guesses: int | None
    same_text: bool


def show_options(options: Options) -> OptionControls:
    """What the controls show for these options."""
    sampling, decoding = options.sampling, options.decoding
    return OptionControls(
        lookahead=decoding.decoder != "plain",
        temperature=sampling.temperature,
        max_new_tokens=options.max_new_tokens,
        seed=sampling.seed,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        # Off is plain, which is no choice of its own: on again, auto decides.
        decoder=decoding.decoder if decoding.decoder != "plain" else "auto",
        rows=decoding.rows,
        window=decoding.window,
        ngram=decoding.ngram,
        guesses=decoding.guesses,
        same_text=decoding.same_text,
    )


def read_options(controls: OptionControls, base: Options) -> Options:
    """The options that the controls mean; what has no control is as in `base`. Raises BadOption."""
    _refuse_empty(controls)
    with impossible_values():
        return replace(
            base,
            sampling=_sampling(controls),
            decoding=_decoding(controls),
            max_new_tokens=_whole(controls.max_new_tokens),
        )


def read_model(name: str, *choices: Any) -> ModelChoice:
    """The model that the boxes name, in the order of `ModelChoice`. Raises BadOption."""
    if not name.strip():
        raise BadOption('The model box is empty: type "demo", a folder, or a hub id such as org/model.')
    with impossible_values():
        return ModelChoice(name.strip(), *choices)


def _refuse_empty(controls: OptionControls) -> None:
    for name, value in controls._asdict().items():
        if value is None:
            raise BadOption(f"The box for {name.replace('_', ' ')} is empty: type a number.")


def _sampling(controls: OptionControls) -> Sampling:
    return Sampling(
        temperature=_number(controls.temperature),
        top_k=_whole(controls.top_k),
        top_p=_number(controls.top_p),
        min_p=_number(controls.min_p),
        repetition_penalty=_number(controls.repetition_penalty),
        seed=_whole(controls.seed),
    )


def _decoding(controls: OptionControls) -> Decoding:
    return Decoding(
        decoder=controls.decoder if controls.lookahead else "plain",
        window=_whole(controls.window),
        ngram=_whole(controls.ngram),
        guesses=_whole(controls.guesses),
        rows=_whole(controls.rows),
        same_text=controls.same_text,
    )


def _number(value: float | None) -> float:
    return float(value or 0)


def _whole(value: float | None) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(f"this box takes a whole number, got {value!r}")
    return int(number) if isinstance(value, float) else int(value or 0)
