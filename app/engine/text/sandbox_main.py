"""The sandbox's process: reads one job per line from standard input and writes its result to standard output.

The process does not import torch."""

import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import date
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from app.engine.text.chat_format_detection import find_chat_format
from app.errors import first_line
from app.system.child_process import limit_memory, serve_each
from app.system.garbage_collection import collecting_later
from app.values.dataclass_json import to_dict
from app.values.json_answers import for_grammar
from app.values.logits import CONTROL_RULE, GrammarKind

MEMORY = 2 * 2**30
"""Bytes of address space that jobs may take, in addition to LIBRARIES."""
LIBRARIES = 2**30
"""Bytes of address space for the imported libraries."""
MOST_ADDED = 32_768
"""Maximum number of added tokens, because each of them is searched for in every text."""
LONGEST = 50_000_000
"""Maximum number of characters of a filled template."""
IMPORTED = {
    "tokenizer": "tokenizers",
    "template": "transformers.utils.chat_template_utils",
    "format": "transformers.utils.chat_template_utils",
    "gguf": "app.engine.text.gguf_tokenizer",
    "grammar": "llguidance",
}
SMALL_STACK = 2**19
"""Bytes of stack for trying a grammar: a sixteenth of that of the app's threads, which later compile it."""
TRIED_STEPS = 32
"""Maximum bytes that a trial writes under a grammar."""
WHITESPACE = "[ \\n]?"
"""White space between parts of a JSON text: at most one character, because small models might write it without
end."""
SAMPLES = (
    "Hello, world!  It is the 3rd of May 2024: don't worry\n\n\tx = f(y) # 1,234.5",
    "\u4f60\u597d \u043c\u0438\u0440 \U0001f600 e\u0301 <|im_start|> </s> [INST]",
    *(one * 64 + end for one in ("a", "ab", " ", "1", ".", "\n", "\u00e9") for end in ("", "b", "!")),
)
"""The texts of a trial: many kinds of characters, and long runs for which a bad pattern takes exponential time."""


def _answer(line: bytes) -> bytes:
    job: dict[str, Any] = json.loads(line)
    _end_after(job.pop("seconds"))
    try:
        answer: dict[str, Any] = {"text": DOING[job.pop("do")](**job)}
    except RecursionError:
        answer = {"refused": "it is nested too deeply", "is_endless": True}
    except MemoryError as error:
        answer = {"refused": str(error) or "it takes more than 2 GB of memory", "is_endless": True}
    except BaseException as error:  # a panic of the tokenizer's Rust code is not an Exception
        answer = {"refused": first_line(error), "is_endless": False}
    _end_after(0)
    return json.dumps(answer).encode() + b"\n"


def _end_after(seconds: float) -> None:
    """Let the system end this process after these seconds (0: never), even inside C code or if the app has ended.

    Does nothing on Windows, where the app alone ends the process."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _import(what: str) -> str:
    """Import the library of this kind of job, so that its time limit does not include the import; return ""."""
    with collecting_later():
        import_module(IMPORTED[what])
    return ""


def _try_tokenizer(folder: str) -> str:
    """Read the tokenizer in a folder and tokenise the sample texts with it; return "".

    Raises ValueError for too many added tokens, and errors of the library."""
    from tokenizers import Tokenizer

    # transformers would add the tokens of these files one by one.
    for name, key in (("tokenizer_config.json", "added_tokens_decoder"), ("added_tokens.json", "")):
        file = Path(folder) / name
        found = json.loads(file.read_bytes()) if file.is_file() else {}
        if len(found.get(key, {}) if key else found) > MOST_ADDED:
            raise ValueError(f"{name} adds more than {MOST_ADDED:,} tokens")
    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        return ""  # a tokenizer in another format, which transformers reads
    tokenizer = Tokenizer.from_file(str(file))
    if len(tokenizer.get_added_tokens_decoder()) > MOST_ADDED:
        raise ValueError(f"more than {MOST_ADDED:,} tokens are added to its vocabulary")
    for encoding in tokenizer.encode_batch(SAMPLES):
        tokenizer.decode(encoding.ids)
    return ""


def _unpack(file: str, target: str) -> str:
    """Write the tokenizer and the config of a GGUF file into the new folder `target`; return ""."""
    from app.engine.text.gguf_tokenizer import unpack

    unpack(Path(file), Path(target))
    return ""


TOOLS_OF_MESSAGE = "message['tools']"
"""Text of templates that expect tools as JSON in the system message, as Phi-4-mini's does."""


def fill(template: str, messages: list[dict[str, Any]], tokens: dict[str, Any]) -> str:
    """Return the template filled with a chat.

    `tokens` are the special tokens and other variables of the template, such as the list `tools`. A template that
    fails without a variable is filled again with default values. Raises MemoryError for a very long text."""
    from jinja2 import UndefinedError

    try:
        return _filled(template, messages, tokens)
    except (TypeError, UndefinedError):
        functions = json.dumps(tokens.get("tools", []))
        missing = {"tools": [], "functions": functions, "datetime": f"{date.today():%d %B %Y}"}
    return _filled(template, messages, {**missing, **tokens})


def _filled(template: str, messages: list[dict[str, Any]], tokens: dict[str, Any]) -> str:
    # without a default, a template that appends a missing special token to a text would fail
    defaults = {
        "bos_token": "",
        "eos_token": "",
        "tools": None,
        "documents": None,
        "add_generation_prompt": True,
    }
    if messages and tokens.get("tools") and TOOLS_OF_MESSAGE in template:
        system = messages[0] if messages[0]["role"] == "system" else {"role": "system", "content": ""}
        told = {**system, "tools": json.dumps(tokens["tools"], ensure_ascii=False)}
        messages = [told, *messages[messages[0] is system :]]
    text = str(_compiled(template).render(messages=messages, **{**defaults, **tokens}))
    if len(text) > LONGEST:
        raise MemoryError(f"its text has more than {LONGEST:,} characters")
    return text


@lru_cache(8)
def _compiled(template: str) -> Any:
    """Compile a template as transformers does, but let it append to lists, as Kimi K2's template does."""
    from jinja2.sandbox import SandboxedEnvironment
    from transformers.utils.chat_template_utils import _compile_jinja_template

    strict = _compile_jinja_template("").environment
    extensions = [type(extension) for extension in strict.extensions.values()]
    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters, environment.globals = strict.filters, strict.globals
    return environment.from_string(template)


def chat_format(template: str, tokens: dict[str, Any], controls: list[str]) -> str:
    """Return the format of a chat template as JSON; `controls` are the model's control tokens."""

    def render(messages: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
        chat, variables = deepcopy(([dict(message) for message in messages], {**tokens, **values}))
        return fill(template, chat, variables)

    return json.dumps(to_dict(find_chat_format(render, controls)))


def grammar_source(kind: GrammarKind, source: str) -> str:
    """Translate a grammar to llguidance's own format. Raises ValueError if a JSON schema is not a JSON object."""
    from llguidance import LLMatcher

    match kind:
        case "json_schema":
            schema, _ = for_grammar(json.loads(source))
            return str(
                LLMatcher.grammar_from_json_schema(
                    schema, overrides={"whitespace_pattern": WHITESPACE, "coerce_one_of": True}
                )
            )
        case "regex":
            return str(LLMatcher.grammar_from_regex(source))
        case "lark":
            return str(LLMatcher.grammar_from_lark(source))


def _try_grammar(kind: GrammarKind, source: str) -> str:
    """Compile a grammar and write at most TRIED_STEPS bytes under it, on a small stack. Raises ValueError."""
    threading.stack_size(SMALL_STACK)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_compile, kind, source).result()


def _compile(kind: GrammarKind, source: str) -> str:
    from llguidance import LLMatcher, LLTokenizer

    if kind == "lark":  # a model's control tokens have no ids here
        source = re.sub(CONTROL_RULE, lambda found: json.dumps(found[1]), source)
    prepared = grammar_source(kind, source)
    if problem := LLMatcher.validate_grammar(prepared):
        raise ValueError(problem)
    matcher = LLMatcher(LLTokenizer("byte"), prepared, log_level=0)
    for _ in range(TRIED_STEPS):
        bits = int.from_bytes(matcher.compute_bitmask(), "little")
        if not bits or not matcher.consume_token((bits & -bits).bit_length() - 1):  # the first allowed byte
            break
    return ""


DOING: dict[str, Callable[..., str]] = {
    "import": _import,
    "tokenizer": _try_tokenizer,
    "template": fill,
    "format": chat_format,
    "gguf": _unpack,
    "grammar": _try_grammar,
}

if __name__ == "__main__":
    # transformers imports torch if it finds it, which takes seconds and is not needed here.
    sys.modules["torch"] = None  # type: ignore[assignment]
    limit_memory(MEMORY + LIBRARIES)
    serve_each(_answer)
