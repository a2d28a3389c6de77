"""`python run.py ...` as a person types it, with the demo model: once in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.test_bench import FIELDS as BENCH_FIELDS
from tests.commands.test_reply_output import FIELDS
from tests.commands.typed import CHECKOUT, command, typed

CPU = ("--device", "cpu", "--dtype", "float32")


def test_a_text_is_answered_with_its_numbers_behind_it() -> None:
    done = subprocess.run(
        command("generate", "--prompt", "Hello", "--max-new-tokens", "12", *CPU),
        cwd=CHECKOUT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("[auto: ")


def test_prompts_and_chats_of_a_file_are_answered_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    chat = {"messages": [{"role": "user", "content": "Hello"}]}
    file.write_text(json.dumps({"prompt": "Hello"}) + "\n" + json.dumps(chat) + "\n", encoding="utf-8")
    options = ("--max-new-tokens", "16", "--ignore-eos", "--json")
    done = typed("generate", "--prompts", str(file), *options, *CPU)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(line) for line in lines] == [FIELDS, FIELDS]
    assert lines[0]["token_ids"] == lines[1]["token_ids"]
    assert (len(lines[0]["token_ids"]), lines[0]["stop_reason"]) == (16, "max_tokens")
    assert (lines[0]["seed"], lines[0]["dtype"], lines[0]["device"]) == (0, "float32", "cpu")


def test_the_lanes_of_a_benchmark_run_over_every_set_and_write_one_text(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text('{"prompt": "Hello", "temperature": 0.8}\n', encoding="utf-8")
    files = ("--prompts", str(tmp_path / "one.jsonl"), "--prompts", str(tmp_path / "two.jsonl"))
    lanes = "plain,auto,auto:8,lookahead:3/3/2,lookahead:7b,prompt-lookup,jacobi:4"
    report = tmp_path / "report.json"
    options = ("--decoders", lanes, "--max-new-tokens", "12", "--rounds", "1", "--json", str(report))
    done = typed("bench", *files, *options, *CPU)
    assert (done.returncode, done.stderr) == (0, "")
    assert "mean of 2 sets" in done.stdout
    found = json.loads(report.read_text(encoding="utf-8"))
    assert [one["set"] for one in found["sets"]] == ["one", "two"]
    assert list(found["lanes"]) == [entry["decoder"] for entry in found["decoders"]] == lanes.split(",")
    assert all(entry["identical"] for one in found["sets"] for entry in one["decoders"])
    assert all(set(entry) == BENCH_FIELDS for entry in found["decoders"])
    assert found["decoders"][0]["tokens_per_step"] == 1.0


def test_a_failure_is_one_sentence_without_a_traceback() -> None:
    done = typed("generate", "--prompt", "Hello", "--max-new-tokens", "-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: Max new tokens must be 0 (no limit) or more; it is -1.\n"


@pytest.mark.thorough
def test_ranks_of_torchrun_and_of_devices_write_what_one_device_writes() -> None:
    options = "--max-new-tokens 24 --ignore-eos --json --rows 24 --temperature 0.8 --seed 3 --dtype float32"
    run = command("generate", "--prompt", "Once upon a time", *options.split())
    by_torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *run[1:]]
    replies = []
    for line in (run, [*run, "--devices", "cpu,cpu"], by_torchrun):
        done = subprocess.run(
            line, cwd=CHECKOUT, capture_output=True, encoding="utf-8", check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        replies.append(json.loads(done.stdout))
    alone, *shared = replies
    assert [reply["devices"] for reply in replies] == [[], ["cpu", "cpu"], ["cpu", "cpu"]]
    assert [reply["token_ids"] for reply in shared] == [alone["token_ids"]] * 2


def test_devices_that_cannot_be_are_refused_in_a_sentence() -> None:
    for devices, words in (
        ("0,0", "A GPU can be named once only; it is “cuda:0”."),
        ("cpu,0", "Devices must be all GPUs or all cpu; it is “cpu,cuda:0”."),
        ("fast", "A device must be cpu, or a GPU's number; it is “fast”."),
    ):
        done = typed("generate", "--prompt", "Hello", "--devices", devices)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {words}\n")
