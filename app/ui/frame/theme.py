"""The theme: sets Gradio's own colours to the palette of assets/ui/foresight.css, and its fonts to system fonts."""

import json
from collections.abc import Mapping
from pathlib import Path

from gradio.themes import Base, Color, Size

from app.settings import assets_dir

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "Cantarell", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Cascadia Code", "Menlo", "DejaVu Sans Mono", "monospace")

# Gradio expects the shades from lightest to darkest.
TEAL = Color(
    "#f0f9f7", "#d9f0eb", "#b4e1d8", "#83cbbf", "#52afa2", "#2f9286",
    "#0f766e", "#10605a", "#124d49", "#12403d", "#062624", name="teal",
)  # fmt: skip
INK = Color(
    "#faf9f6", "#f3f1ec", "#e6e3db", "#d2cec4", "#a8a49a", "#7d7a72",
    "#5d5b55", "#46453f", "#2b2c2c", "#1d1f20", "#141617", name="ink",
)  # fmt: skip
TEXT = Size(
    ".5625rem", ".625rem", ".75rem", ".875rem", "1rem", "1.375rem", "1.625rem", name="text"
)  # Gradio's own sizes in rem, which follow the chosen text size
COLOURS: Mapping[str, tuple[str, str]] = {
    "body_background_fill": ("#faf9f6", "#141617"),
    "body_text_color": ("#1d1f20", "#e8e6e1"),
    "body_text_color_subdued": ("#5d5b55", "#a8a49a"),
    "background_fill_primary": ("#ffffff", "#1d1f20"),
    "background_fill_secondary": ("#f3f1ec", "#191b1c"),
    "border_color_primary": ("#e0ddd5", "#33363a"),
    "block_background_fill": ("transparent", "transparent"),
    "block_label_background_fill": ("transparent", "transparent"),
    "input_background_fill": ("#ffffff", "#1d1f20"),
    "input_border_color": ("#d2cec4", "#3c4044"),
    "input_border_color_focus": ("#0f766e", "#6fcfc0"),
    "button_primary_background_fill": ("#0f766e", "#6fcfc0"),
    "button_primary_background_fill_hover": ("#10605a", "#8bdccf"),
    "button_primary_text_color": ("#ffffff", "#08211f"),
    "button_secondary_background_fill": ("transparent", "transparent"),
    "button_secondary_background_fill_hover": ("#f1efe9", "#2a2d30"),
    "button_secondary_border_color": ("#d2cec4", "#3c4044"),
    "button_secondary_text_color": ("#1d1f20", "#e8e6e1"),
    "slider_color": ("#0f766e", "#6fcfc0"),
    "checkbox_background_color_selected": ("#0f766e", "#2f9286"),
    "block_title_text_color": ("#1d1f20", "#e8e6e1"),
    "link_text_color": ("#0f766e", "#6fcfc0"),
}
"""The colours of the light page and of the dark page, by Gradio's names."""
SHAPES = {
    "block_border_width": "0px", "block_padding": "0px", "block_shadow": "none",
    "block_label_border_width": "0px", "block_title_text_size": "0.8125rem", "block_title_text_weight": "500",
    "block_info_text_size": "0.75rem", "input_radius": "10px", "input_shadow": "none",
    "button_large_radius": "10px", "button_large_text_weight": "550", "button_border_width": "1px",
    "layout_gap": "14px",
}  # fmt: skip


def make_theme() -> Base:
    theme = Base(
        primary_hue=TEAL, secondary_hue=TEAL, neutral_hue=INK, text_size=TEXT, font=SANS, font_mono=MONO
    )
    dark = {f"{name}_dark": colour for name, (_, colour) in COLOURS.items()}
    theme.set(**{name: colour for name, (colour, _) in COLOURS.items()}, **dark, **SHAPES)
    return theme


def asset(name: str) -> Path:
    """Return the path of a file in assets/ui/."""
    return assets_dir() / "ui" / name


def head(appearance: Mapping[str, str]) -> str:
    """Return the page's style and script for its head. (Gradio would rewrite what it gets as `css`.)"""
    begin = f"<script>document.documentElement.dataset.appearance = '{json.dumps(appearance)}';</script>"
    return f"{begin}<style>{_joined('.css')}</style><script>{_joined('.js')}</script>"


def _joined(ending: str) -> str:
    """Join the page's files of a kind: first the file named foresight, then those of the views."""
    files = sorted(asset("").glob(f"*{ending}"), key=lambda file: (file.stem != "foresight", file.name))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
