"""Light, dark, or as the system has it."""

from typing import get_args

from app.settings import Theme

WORDS: dict[Theme, str] = {"system": "As the system", "light": "Light", "dark": "Dark"}


def theme_html(chosen: Theme) -> str:
    """The choice as radio buttons; assets/ui/settings.js follows them at once."""
    buttons = "".join(_button(theme, theme == chosen) for theme in get_args(Theme))
    return (
        f'<fieldset class="theme" data-theme="{chosen}"><legend><h3>Appearance</h3></legend>'
        f'<div class="choices">{buttons}</div></fieldset>'
    )


def _button(theme: Theme, is_chosen: bool) -> str:
    checked = " checked" if is_chosen else ""
    return (
        f'<label data-do="theme" data-name="{theme}"><input type="radio" name="theme" value="{theme}"{checked}>'
        f"<span>{WORDS[theme]}</span></label>"
    )
