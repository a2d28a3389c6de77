"""Bad input at the command line: one sentence on standard error, the right exit code, never a traceback."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.commands.decoder_options import LANES
from app.main import cli

CPU = ("--device", "cpu", "--dtype", "float32")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def sentence(result: Result, code: int) -> str:
    """The one line on standard error, if the command ended as it should."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--max-new-tokens", "-5", "Max new tokens must be 0 (no limit) or more; it is -5."),
        ("--rows", "-1", "Rows per step must be from 0 (auto) to 256; it is -1."),
        ("--window", "-1", "W (window) must be from 0 (off) to 128; it is -1."),
        ("--window", "129", "W (window) must be from 0 (off) to 128; it is 129."),
        ("--ngram", "1", "N (n-gram) must be from 2 to 16; it is 1."),
        ("--guesses", "1000", "G (guesses) must be from 0 (off) to 128; it is 1000."),
        ("--temperature", "-1", "Temperature must be from 0 to 100; it is -1.0."),
        ("--temperature", "nan", "Temperature must be from 0 to 100; it is nan."),
        ("--top-k", "-1", "Top-k must be 0 (off) or more; it is -1."),
        ("--top-p", "0", "Top-p must be above 0 and at most 1; it is 0.0."),
        ("--min-p", "1", "Min-p must be at least 0 and below 1; it is 1.0."),
        ("--repetition-penalty", "0", "Repetition penalty must be from 0.01 to 100; it is 0.0."),
        ("--seed", "-1", "Seed must be from 0 to 2^63-1; it is -1."),
        ("--stop", "", "The value of --stop is empty. Write one, or leave the option out."),
        ("--model", " ", "Model must be a folder or a hub id; it is “ ”."),
    ],
)
def test_an_impossible_value_is_named_with_its_rule(option: str, value: str, words: str) -> None:
    assert sentence(run("generate", "--prompt", "Hello", option, value), code=2) == words


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--prompt", "Hello", "--decoder", "fancy"),
        ("generate", "--prompt", "Hello", "--preset", "70b"),
        ("generate", "--prompt", "Hello", "--same-text", "perhaps"),
        ("generate", "--prompt", "Hello", "--dtype", "int3"),
        ("generate", "--prompt", "Hello", "--device", "tpu"),
        ("generate", "--prompt", "Hello", "--max-new-tokens", "many"),
        ("generate", "--prompt", "Hello", "--nonesuch"),
        ("--port", "0"),
        ("--port", "99999"),
        ("nonesuch",),
    ],
    ids=" ".join,
)
def test_what_the_parser_refuses_is_a_bad_argument(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == "" and "Error" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "x"), "Invalid value for '--port': it must be a valid integer."),
        (("serve", "--port", "0"), "Invalid value for '--port': it must be greater than or equal to 1."),
        (("documents", "search"), "Missing argument 'QUESTION'.\n"),
        (("models", "info", "x", "--dtype", "x"), "Invalid value for '--dtype': 'x' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_the_parser_refuses_is_told_in_plain_words(arguments: tuple[str, ...], words: str) -> None:
    assert f"Error: {words}" in run(*arguments).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--rows", "abc"),
        ("models", "info", "x", "--dtype", "x"),
        ("--port", "x", "chats", "list"),
    ],
    ids=" ".join,
)
def test_a_wrong_value_is_one_sentence(arguments: tuple[str, ...]) -> None:
    assert sentence(run(*arguments), code=2).startswith("Invalid value for '--")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("chats", "search", " "), "There is nothing to search for. Type some words."),
        (("models", "search", ""), "There is nothing to search for. Type some words."),
        (("models", "list", "--dtype", "int8"), "--dtype and --context are only for --catalogue"),
        (("models", "list", "--context", "512"), "--dtype and --context are only for --catalogue"),
        (("documents", "add", __file__, "--title", "Lease"), "--title names the text from standard input"),
        (("generate",), "Give either --prompt TEXT or --prompts"),
        (("generate", "--prompts", "none.jsonl"), "none.jsonl cannot be read"),
        (("bench", "--prompts", "none.jsonl"), "none.jsonl cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_would_be_ignored_or_cannot_be_done_is_refused(arguments: tuple[str, ...], words: str) -> None:
    assert words in sentence(run(*arguments), code=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--decoders", "plain,fancy"),
            f"Unknown decoder 'fancy'. Choose from {LANES}, separated by commas.",
        ),
        (("--decoders", "auto:999"), "Rows per step must be from 0 (auto) to 256; it is 999."),
        (("--decoders", "plain,plain"), "Decoders must differ from each other; they are “plain,plain”."),
        (("--decoders", "plain,"), f"Unknown decoder ''. Choose from {LANES}, separated by commas."),
        (("--rounds", "0"), "The number of rounds must be at least 1; it is 0."),
        (("--max-new-tokens", "-1"), "Max new tokens must be 0 (no limit) or more; it is -1."),
        (("--ngram", "99"), "N (n-gram) must be from 2 to 16; it is 99."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_impossible_benchmark_is_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    assert sentence(run("bench", "--prompts", str(prompts_file(tmp_path)), *options), code=2) == words


def prompts_file(folder: Path, prompt: str = "Hello") -> Path:
    file = folder / "prompts.jsonl"
    file.write_text(f'{{"prompt": "{prompt}"}}\n', encoding="utf-8")
    return file


def test_a_report_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "none" / "report.json"
    result = run("bench", "--prompts", str(prompts_file(tmp_path)), "--json", str(report), *CPU)
    assert "Choose another file for --json" in sentence(result, code=2)


def test_a_folder_that_is_missing_or_no_model_or_has_only_pickled_weights_is_a_failure(
    tmp_path: Path,
) -> None:
    def said_of(folder: Path) -> str:
        return sentence(run("generate", "--model", str(folder), "--prompt", "Hello", *CPU), code=1)

    assert said_of(tmp_path / "none") == f"The folder {tmp_path / 'none'} does not exist: check the path."
    assert str(tmp_path) in said_of(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nabort\n(tR.")
    assert "safetensors" in said_of(tmp_path)


def test_a_prompt_longer_than_the_context_is_a_failure() -> None:
    words = sentence(run("generate", "--prompt", "word " * 3000, *CPU), code=1)
    assert "the model's context holds 1,024" in words


def test_what_was_answered_before_a_failure_stays(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "Hello"}\n{"prompt": "' + "word " * 3000 + '"}\n', encoding="utf-8")
    result = run("generate", "--prompts", str(file), "--max-new-tokens", "3", "--json", *CPU)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "the model's context holds" in result.stderr
