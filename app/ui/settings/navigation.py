"""The sections of the Settings view, and the links to them. assets/ui/settings.js shows one at a time."""

import gradio as gr

from app.ui.frame.templates import render_macro

SECTIONS = {
    "general": "General",
    "appearance": "Appearance",
    "chats": "Chat defaults",
    "lookahead": "Lookahead",
    "data": "Data",
    "connect": "Connect",
    "privacy": "Privacy",
    "about": "About",
}
"""By the last part of their address: #/settings/connect."""


def build_navigation() -> None:
    """Build the links inside the current Blocks."""
    links = render_macro("settings.html", "navigation", sections=SECTIONS)
    gr.HTML(links, elem_id="settings-nav", js_on_load="foresight.settingsNav(element)")


def section(name: str) -> gr.Column:
    """A section to build components in."""
    return gr.Column(elem_id=f"settings-{name}", elem_classes="section")
