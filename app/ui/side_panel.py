"""The panel beside the chat: tabs with what is chosen for replies, the live numbers, and the X-ray.

assets/ui/side.js goes between them, closes the panel and keeps its width."""

from dataclasses import dataclass

import gradio as gr

from app.ui.chat.chat_settings import ChatSettingsPanel, build_chat_settings
from app.ui.frame.option_controls import OptionPanel, build_lookahead_switch, build_option_panel
from app.ui.live.view import XrayView, build_live_panel, build_xray
from app.values.messages import Options

TABS = (("settings", "Settings"), ("live", "Live"), ("xray", "X-ray"))
READY = "foresight.side()"


@dataclass(frozen=True, slots=True)
class SidePanel:
    """What stands in the tabs."""

    options: OptionPanel
    chat_settings: ChatSettingsPanel
    xray: XrayView


def build_side_panel(options: Options) -> SidePanel:
    """Build the panel inside the current Blocks."""
    with gr.Column(elem_id="side", scale=0, min_width=256):
        gr.HTML(_tabs(), elem_id="side-tabs", js_on_load=None)
        with gr.Column(elem_id="side-live", elem_classes="side-page"):
            lookahead = build_lookahead_switch(options)
            build_live_panel()
        with gr.Column(elem_id="side-settings", elem_classes="side-page"):
            chat_settings = build_chat_settings()
            panel = build_option_panel(options, lookahead)
        with gr.Column(elem_id="side-xray", elem_classes="side-page"):
            xray = build_xray()
        gr.HTML(elem_id="side-ready", elem_classes="hidden-output", js_on_load=READY)
    return SidePanel(panel, chat_settings, xray)


def _tabs() -> str:
    tabs = "".join(
        f'<button type="button" role="tab" id="side-tab-{tab}" data-side="{tab}" aria-controls="side-{tab}"'
        f' aria-selected="false">{words}</button>'
        for tab, words in TABS
    )
    return (
        '<div id="side-edge" role="separator" aria-orientation="vertical" aria-label="Width of the panel"'
        ' aria-valuemin="256" tabindex="0"></div>'
        f'<div role="tablist" aria-label="Panel">{tabs}</div>'
        '<button type="button" id="close-side" aria-label="Close the panel" title="Close the panel (Ctrl+.)">'
        "&times;</button>"
    )
