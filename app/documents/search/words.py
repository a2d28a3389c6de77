"""Words to find: how a passage is indexed, and how a question is asked."""

import re
import unicodedata

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
                      "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")  # fmt: skip


def spaced(text: str) -> str:
    """A text as it is indexed."""
    return UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def question(text: str) -> str:
    """What to ask FTS5 for any of these words; "" when there are none."""
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", spaced(text)))
