"""Decoders compared with a scripted engine, whose numbers are known."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from app.commands.bench import Comparison, run_bench
from app.commands.bench_measurement import BenchPlan, LaneNumbers, engine_contestant, means, measure
from app.commands.prompts import PromptItem, PromptSet, SamplingOverride
from app.conversation import Reply
from app.conversation.race.lane_comparison import Lane
from app.errors import BadOption
from app.values.messages import DecoderName, Decoding, ModelChoice, Options, Request
from tests.commands.scripted import PLAIN, ScriptedDecoders

BOTH: list[DecoderName] = ["plain", "lookahead"]
FIELDS = {
    "decoder", "tokens_per_step", "tokens_per_second", "ms_per_step", "rows_per_step", "hit_rate",
    "speed_vs_plain", "identical", "same_text", "speeds",
}  # fmt: skip


ONE_SET = (PromptSet("short", (PromptItem("One"), PromptItem("Two"))),)


def asked(
    decoders: list[DecoderName] = BOTH, rounds: int = 2, sets: tuple[PromptSet, ...] = ONE_SET
) -> Comparison:
    lanes = [Lane(decoder, Decoding(decoder)) for decoder in decoders]
    return Comparison(ModelChoice("demo"), sets, lanes, Options(max_new_tokens=100), rounds)


def plan(
    engine: ScriptedDecoders,
    decoders: list[DecoderName] = BOTH,
    rounds: int = 2,
    sets: tuple[PromptSet, ...] = ONE_SET,
) -> BenchPlan:
    lanes = asked(decoders).lanes
    contestants = [engine_contestant(engine, ModelChoice("demo"), lane) for lane in lanes]
    return BenchPlan(sets, contestants, Options(max_new_tokens=100), rounds)


def measured(engine: ScriptedDecoders, decoders: list[DecoderName] = BOTH) -> tuple[LaneNumbers, ...]:
    """The results of the plan's only set."""
    [only] = measure(plan(engine, decoders), {})
    return only.results


def test_each_decoder_has_its_numbers() -> None:
    plain, lookahead = measured(ScriptedDecoders())
    assert (plain.decoder, plain.tokens_per_step, plain.rows_per_step, plain.hit_rate) == ("plain", 1, 1, 0)
    assert (plain.speed_vs_plain, plain.identical) == (1.0, True)
    assert (lookahead.decoder, lookahead.tokens_per_step, lookahead.hit_rate) == ("lookahead", 2, 2 / 3)
    # The script gives every step 20 ms, and lookahead needs half as many.
    assert lookahead.ms_per_step == pytest.approx(20)
    assert lookahead.tokens_per_second == pytest.approx(100)
    assert lookahead.speed_vs_plain == pytest.approx(2)
    assert lookahead.identical


def test_the_decoders_take_turns_over_each_prompt_after_a_short_warm_up() -> None:
    engine = ScriptedDecoders()
    measured(engine)
    ran = [(request.prompt, request.options.decoding.decoder) for request in engine.requests]
    turns = [("One", "plain"), ("One", "lookahead"), ("Two", "plain"), ("Two", "lookahead")]
    assert ran == [*turns[:2], *turns, *turns]
    assert [request.options.max_new_tokens for request in engine.requests] == [16, 16, *[100] * 8]


def test_one_different_token_is_not_identical() -> None:
    wrong = [*PLAIN[:-1], (7,)]
    results = measured(ScriptedDecoders(lookahead=wrong))
    assert [result.identical for result in results] == [True, False]


def test_the_file_holds_the_promised_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    run_bench(ScriptedDecoders(), asked(), file)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {"model", "machine", "decoders"} <= set(report)
    assert report["model"]["name"] == "demo"
    assert [set(entry) for entry in report["decoders"]] == [FIELDS, FIELDS]
    table = capsys.readouterr().out
    assert "plain" in table
    assert "2.00x" in table
    assert "yes" in table


def test_a_file_that_is_there_is_replaced_only_if_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("ten years of work")
    with pytest.raises(BadOption, match=r"is there already.*--overwrite"):
        run_bench(ScriptedDecoders(), asked(), file)
    assert file.read_text() == "ten years of work"
    run_bench(ScriptedDecoders(), asked(), file, overwrite=True)
    assert json.loads(file.read_text())["decoders"]


def test_the_table_fits_a_terminal_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    run_bench(ScriptedDecoders(), asked())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert lines[-2].split() == ["plain", "1.00", "50.0", "1.00x", "yes", "20.00", "1.0", "0%"]
    assert lines[-1].split() == ["lookahead", "2.00", "100.0", "2.00x", "yes", "20.00", "14.3", "67%"]


def test_each_set_has_a_table_and_the_last_one_has_the_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = PromptSet("hot", (PromptItem("Three", SamplingOverride(1.5, 9)),))
    engine, file = ScriptedDecoders(), tmp_path / "report.json"
    run_bench(engine, asked(sets=(*ONE_SET, hot)), file)
    out = capsys.readouterr().out
    places = [out.index(title) for title in ("short: 2 prompts", "hot: 1 prompt", "mean of 2 sets")]
    assert places == sorted(places)
    assert out.count("2.00x") == 3
    drawn = {request.options.sampling.temperature for request in engine.requests if request.prompt == "Three"}
    assert drawn == {1.5}
    report = json.loads(file.read_text(encoding="utf-8"))
    counted = [(one["set"], one["prompts"], one["replies"]) for one in report["sets"]]
    assert counted == [("short", 2, 4), ("hot", 1, 2)], "two rounds"
    assert report["replies"] == 6
    assert report["lanes"]["lookahead"]["window"] == 5


def test_every_set_counts_the_same_in_the_means() -> None:
    fast = LaneNumbers("auto", 3.0, 30.0, 10.0, 8.0, 0.5, 2.0, True, 1.0, {"auto": 1.0, "plain": 2.0})
    slow = LaneNumbers("auto", 1.0, 10.0, 20.0, 2.0, 0.1, 1.0, False, 0.5, {"auto": 1.0, "plain": 1.0})
    [one] = measure(plan(ScriptedDecoders(), ["lookahead"]), {})
    sets = [replace(one, prompts=prompts, results=(result,)) for prompts, result in ((1, fast), (99, slow))]
    speeds = {"auto": 1.0, "plain": 1.5}
    assert means(sets) == (LaneNumbers("auto", 2.0, 20.0, 15.0, 5.0, 0.3, 1.5, False, 0.75, speeds),)
    unknown = replace(one, results=(replace(fast, speed_vs_plain=None),))
    assert means([unknown])[0].speed_vs_plain is None


@pytest.mark.parametrize("place", [".", "none/report.json", f"{'long' * 99}.json"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path, place: str) -> None:
    engine = ScriptedDecoders()
    with pytest.raises(BadOption, match=r"cannot be written \(.*\)\. Choose another file for --json"):
        run_bench(engine, asked(), tmp_path / place)
    assert engine.requests == []


def test_a_report_whose_folder_vanishes_meanwhile_is_printed_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Vanishing(ScriptedDecoders):
        def submit(self, request: Request, reply: Reply) -> None:
            shutil.rmtree(tmp_path / "reports", ignore_errors=True)
            super().submit(request, reply)

    (tmp_path / "reports").mkdir()
    with pytest.raises(BadOption, match=r"could not be written to .*It is printed above"):
        run_bench(Vanishing(), asked(), tmp_path / "reports" / "report.json")
    assert json.loads(capsys.readouterr().err)["decoders"]


@pytest.mark.parametrize("decoders", [[], ["plain", "plain"]])
def test_decoders_are_different_ones(decoders: list[DecoderName]) -> None:
    with pytest.raises(ValueError, match="decoders must differ from each other; they are"):
        plan(ScriptedDecoders(), decoders)
