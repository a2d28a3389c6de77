"""`python run.py generate`: prints replies as text while they are written, or as JSON lines."""

from collections.abc import Iterable
from typing import Annotated

import typer

from app.commands import options as given
from app.commands.console import errors_as_sentences, print_json
from app.commands.decoder_options import DecoderSizes, read_decoding, require_drafting
from app.commands.prompts import PromptItem, SamplingOverride, read_prompts, require_sampled
from app.commands.reply_output import print_statistics, stream_reply, wait_for_reply
from app.commands.services import chosen_ranks, engine_in
from app.conversation import ReplyEngine
from app.database.data_folder import optional_data_dir
from app.errors import impossible_values
from app.settings import DEMO_MODEL
from app.values.messages import ModelChoice, Options, Request, Sampling

GREEDY = Sampling()


def generate(
    model: given.Model = DEMO_MODEL,
    draft_model: given.DraftModel = "",
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="A single prompt.")] = None,
    prompts: given.PromptsFile = None,
    raw: given.Raw = False,
    decoder: given.Decoder = None,
    rows: given.Rows = None,
    preset: given.PresetOption = None,
    window: given.Window = None,
    ngram: given.NGram = None,
    guesses: given.Guesses = None,
    same_text: given.SameText = "on",
    temperature: given.Temperature = None,
    top_k: given.TopK = GREEDY.top_k,
    top_p: given.TopP = GREEDY.top_p,
    min_p: given.MinP = GREEDY.min_p,
    repetition_penalty: given.Penalty = GREEDY.repetition_penalty,
    seed: given.Seed = None,
    dtype: given.DTypeOption = "auto",
    device: given.DeviceOption = "auto",
    devices: given.DevicesOption = None,
    quantisation: given.QuantisationOption = "auto",
    offload: given.OffloadOption = False,
    attention: given.AttentionOption = "auto",
    max_new_tokens: given.MaxNewTokens = 0,
    ignore_eos: given.IgnoreEos = False,
    stop: given.Stop = None,
    thinking: given.ThinkingOption = "default",
    thinking_budget: given.ThinkingBudget = 0,
    data_dir: given.DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Answer prompts; the replies are printed on standard output."""
    override = SamplingOverride(temperature, seed)
    with errors_as_sentences():
        plan = chosen_ranks(devices, device)
        decoding = read_decoding(decoder, DecoderSizes(preset, window, ngram, guesses, rows), same_text)
        require_drafting(draft_model, (decoding.decoder,))
        with impossible_values():
            choice = ModelChoice(
                model, dtype, device, quantisation, attention, draft_model=draft_model, offload=offload
            )
            sampling = override.apply(Sampling(0.0, top_k, top_p, min_p, repetition_penalty))
            thoughts = given.read_thinking(thinking, thinking_budget)
            options = Options(sampling, decoding, max_new_tokens, ignore_eos, tuple(stop or ()), thoughts)
        items = read_prompts(prompt, prompts, raw, override)
        require_sampled(options.sampling, override, items)
        with engine_in(optional_data_dir(data_dir), plan=plan) as engine:
            print_replies(engine, choice, items, options, as_json)


def print_replies(
    engine: ReplyEngine, model: ModelChoice, prompts: Iterable[PromptItem], options: Options, as_json: bool
) -> None:
    """Answer the prompts in turn, and print each reply. Raises ReplyFailed at the first failure."""
    for item in prompts:
        request = Request(model, item.prompt, item.options(options), is_cold=True)
        if as_json:
            print_json(wait_for_reply(engine, request).to_json())
        else:
            print_statistics(stream_reply(engine, request))
