"""A model without a chat template is spoken to in the form that its control tokens show."""

import pytest

from app.engine.loading.loading import default_template
from app.engine.text.sandbox import fill_here
from app.values.messages import Message

BAR = "\uff5c"
TALK = (
    Message("system", "Be kind."),
    Message("user", "Hi"),
    Message("assistant", "Yes"),
    Message("user", "Go"),
)


@pytest.mark.parametrize(
    ("tokens", "filled"),
    [
        (
            "<|im_start|> <|im_end|> <|endoftext|>",
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "Yes<|im_end|>\n<|im_start|>user\nGo<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "<|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|begin_of_text|>",
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nGo<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "<bos> <start_of_turn> <end_of_turn>",
            "<bos><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes<end_of_turn>\n"
            "<start_of_turn>user\nGo<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("[INST] [/INST] <s> </s>", "<s>[INST]Be kind.\n\nHi[/INST]Yes</s>[INST]Go[/INST]"),
        (
            "<|user|> <|assistant|> <|end|> </s>",
            "<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nYes<|end|>\n"
            "<|user|>\nGo<|end|>\n<|assistant|>\n",
        ),
        (
            "<|user|> <|assistant|> </s>",
            "<|system|>\nBe kind.</s>\n<|user|>\nHi</s>\n<|assistant|>\nYes</s>\n<|user|>\nGo</s>\n<|assistant|>\n",
        ),
        (
            f"<{BAR}User{BAR}> <{BAR}Assistant{BAR}>",
            f"Be kind.<{BAR}User{BAR}>Hi<{BAR}Assistant{BAR}>Yes<{BAR}end▁of▁sentence{BAR}><{BAR}User{BAR}>Go"
            f"<{BAR}Assistant{BAR}>",
        ),
    ],
)
def test_the_form_follows_from_the_tokens(tokens: str, filled: str) -> None:
    assert fill_here(default_template(tokens.split()), TALK, {}) == filled


def test_no_form_is_guessed_without_tokens_of_turns() -> None:
    assert default_template(["<s>", "</s>", "<|endoftext|>", "user"]) == ""


def test_a_lone_system_prompt_is_a_message() -> None:
    template = default_template(["<start_of_turn>", "<end_of_turn>"])
    assert "Be kind.<end_of_turn>" in fill_here(template, TALK[:1], {})
