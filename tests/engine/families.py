"""Short chat templates in the style of well-known families, with a reply of each: a thought, an answer, a call."""

from dataclasses import dataclass

TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"
ASSISTANT = "{% elif m.role == 'assistant' %}"
EACH = "{% for c in m.tool_calls %}{% set f = c.function %}"
QWEN = (
    TOOLS
    + "{% for m in messages %}{% if m.role != 'assistant' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    + ASSISTANT
    + "<|im_start|>assistant\n"
    + "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    + "{{ m.content }}"
    + EACH
    + '<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}\n</tool_call>{% endfor %}'
    + "<|im_end|>\n{% endif %}{% endfor %}"
    + "{% if add_generation_prompt %}<|im_start|>assistant\n"
)
HARMONY = (
    TOOLS
    + "{% for m in messages %}{% if m.role != 'assistant' %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>"
    + "{% elif m.tool_calls %}"
    + "{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    + "{% set f = m.tool_calls[0].function %}<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json"
    + "<|message|>{{ f.arguments | tojson }}<|call|>{% else %}"
    + "{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    + "<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    + "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
GEMMA = (
    TOOLS
    + "{% for m in messages %}{% if m.role != 'assistant' %}<|turn>{{ m.role }}\n{{ m.content }}<turn|>\n"
    + ASSISTANT
    + "<|turn>model\n"
    + "{% if m.tool_calls and m.reasoning_content %}"
    + "<|channel>thought\n{{ m.reasoning_content }}\n<channel|>{% endif %}"
    + EACH
    + "<|tool_call>call:{{ f.name }}{{ '{' }}{% for key, value in f.arguments.items() %}{{ key }}:"
    + '{% if value is string %}<|"|>{{ value }}<|"|>{% else %}{{ value | tojson }}{% endif %}'
    + "{{ ',' if not loop.last }}{% endfor %}{{ '}' }}<tool_call|>{% endfor %}{{ m.content }}<turn|>\n"
    + "{% endif %}{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
DEEPSEEK = (
    TOOLS
    + "{% for m in messages %}{% if m.role != 'assistant' %}<|{{ m.role }}|>{{ m.content }}"
    + ASSISTANT
    + "<|assistant|></think>{{ m.content }}{% if m.tool_calls %}<|calls_begin|>"
    + EACH
    + "<|call_begin|>{{ f.name }}<|call_sep|>{{ f.arguments | tojson }}<|call_end|>{% endfor %}<|calls_end|>"
    + "{% endif %}"
    + "<|end|>{% endif %}{% endfor %}"
    + "{% if add_generation_prompt %}<|assistant|>{{ '<think>' if thinking else '</think>' }}{% endif %}"
)
MISTRAL = (
    TOOLS
    + "{% for m in messages %}"
    + "{% if m.role == 'system' %}[SYSTEM]{{ m.content }} Think so: [THINK]x[/THINK][/SYSTEM]"
    + "{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    + ASSISTANT
    + "{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]{% endif %}{{ m.content }}"
    + EACH
    + "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}{% endfor %}<|im_end|>{% endif %}{% endfor %}"
)


@dataclass(frozen=True)
class Family:
    """A template, its control tokens, and raw replies to "Hi": a thought with an answer, and one with a call."""

    template: str
    controls: tuple[str, ...]
    thinks: str
    calls: str


ROME = '{"city": "Rome"}'
FAMILIES = {
    "gpt-oss": Family(
        HARMONY,
        ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|constrain|>"),
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
        f"<|constrain|>json<|message|>{ROME}<|call|>",
    ),
    "Gemma 4": Family(
        GEMMA,
        ("<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
        "<|channel>thought\nHm.\n<channel|>Yes.",
        '<|channel>thought\nHm.\n<channel|><|tool_call>call:weather{city:<|"|>Rome<|"|>}<tool_call|>',
    ),
    "Qwen3": Family(
        QWEN + "{% endif %}",
        (),
        "<think>\nHm.\n</think>\n\nYes.",
        f'<think>\nHm.\n</think>\n\n<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>',
    ),
    "Qwen3 that must think": Family(
        QWEN + "<think>\n{% endif %}",
        ("<think>", "</think>"),
        "Hm.\n</think>\n\nYes.",
        f'Hm.\n</think>\n\n<tool_call>\n{{"name": "weather", "arguments": {ROME}}}\n</tool_call>',
    ),
    "DeepSeek": Family(
        DEEPSEEK.replace("if thinking", "if thinking is not defined or thinking"),
        (
            "<|assistant|>",
            "<|calls_begin|>",
            "<|call_begin|>",
            "<|call_sep|>",
            "<|call_end|>",
            "<|calls_end|>",
        ),
        "Hm.</think>Yes.",
        f"Hm.</think><|calls_begin|><|call_begin|>weather<|call_sep|>{ROME}<|call_end|><|calls_end|>",
    ),
    "Mistral": Family(
        MISTRAL,
        ("[INST]", "[/INST]", "[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
        "[THINK]Hm.[/THINK]Yes.",
        f"[THINK]Hm.[/THINK][TOOL_CALLS]weather[ARGS]{ROME}",
    ),
}
