"""The page's HTML templates: Jinja2 files in assets/ui/templates, with autoescape on. Values are computed in
Python."""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.settings import assets_dir
from app.values.display_text import counted
from app.values.model import gigabytes

NUMBER = re.compile(r" (\(\d+\))$")


@cache
def environment() -> Environment:
    """Return the environment, which reads templates at their first use and keeps them compiled."""
    made = Environment(
        loader=FileSystemLoader(assets_dir() / "ui" / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(counted=counted, gigabytes=gigabytes)
    return made


def render(template: str, **values: Any) -> Markup:
    """Return the template's HTML for these values, as a `Markup` that other templates do not escape again."""
    return Markup(environment().get_template(template).render(**values))


def render_macro(template: str, macro: str, **values: Any) -> Markup:
    """Return the HTML of one macro of a template. Views that send parts one by one have a macro for each."""
    return Markup(getattr(environment().get_template(template).module, macro)(**values))


def problem_html(sentence: str) -> Markup:
    """Return the HTML of a message about a problem, shown next to what it is about; nothing for ""."""
    return render("problem.html", sentence=sentence) if sentence else Markup()


def without_number(title: str) -> tuple[str, str]:
    """Split off the number after a title, "" if there is none: "Dinner (2)" gives "Dinner" and "(2)"."""
    number = NUMBER.search(title)
    return (title[: number.start()], number[1]) if number else (title, "")
