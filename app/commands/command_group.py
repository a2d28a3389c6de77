"""Groups of commands: no option that was given is ignored, and impossible arguments are told in plain words.

`run.py --data-dir DIR chats list` is `run.py chats list --data-dir DIR`. An option before a command that has no
such option is refused, and so is one that is given twice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from app.commands.console import errors_as_sentences
from app.errors import BadOption

BEFORE = "app.commands.options_before_the_command"
"""Where a context keeps the options that were given to its groups, and their values as they were typed."""


class CommandGroup(TyperGroup):
    """Commands that get the options which were given before them."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Reads the options before the command."""
        with _in_plain_words():
            return super().make_context(*arguments, **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options before the command, and keeps what was typed."""
        with errors_as_sentences():
            ctx.meta.setdefault(BEFORE, {}).update(_given(self, ctx, args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds the command, and puts the options that were given before it among its own."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            with errors_as_sentences():
                rest = [*_handed_on(ctx, command, rest), *rest]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with _in_plain_words():
            return super().invoke(ctx)


def options_given(context: typer.Context) -> tuple[str, ...]:
    """The options that were given to the groups of this context."""
    return tuple(context.meta[BEFORE])


def _given(command: Any, context: Any, words: list[str]) -> Mapping[str, str | None]:
    """The command's options among these words, with their values as they were typed; None for a flag.

    Raises BadOption for an option that is given more than once. Other mistakes are left to the real reading."""
    reading = typer.Context(command, parent=context, resilient_parsing=True)
    values, _, order = command.make_parser(reading).parse_args(list(words))
    options = [one for one in order if one.param_type_name == "option"]
    for one in options:
        if options.count(one) > 1 and not one.multiple and not one.is_flag:
            raise BadOption(f"{one.opts[0]} is given {options.count(one)} times. Give it once.")
    return {one.opts[0]: None if one.is_flag else values[one.name] for one in options}


def _handed_on(context: Any, command: Any, words: list[str]) -> Iterator[str]:
    """What was given before the command, as words for it. Raises BadOption for what the command does not have."""
    its_own = {name for one in command.params for name in one.opts if one.param_type_name == "option"}
    given = _given(command, context, words)
    groups = context.command_path.removeprefix(context.find_root().command_path)
    path = f"{groups} {command.name}".strip()
    for name, value in context.meta[BEFORE].items():
        if name not in its_own:
            raise BadOption(f"{name} means nothing to `{path}`. Leave it out.")
        if name not in given:
            yield name if value is None else f"{name}={value}"
        elif given[name] != value:
            raise BadOption(f"{name} is given twice, as {value} and as {given[name]}. Give it once.")


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Tells an impossible argument as a sentence, without the terms of Typer's validator."""
    try:
        yield
    except typer.BadParameter as error:
        words = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
        if words:  # a missing argument has none
            error.message = f"{words.replace('Input should be', 'it must be').rstrip('.')}."
        raise
