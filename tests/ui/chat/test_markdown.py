"""Markdown: what it looks like, and that nobody's text becomes more than text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.chat.code import LONGEST, code_html
from app.ui.chat.markdown import render
from app.ui.chat.plain_text import typed_html
from tests.ui.chat.strict_html import read

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<!-- comment --> <?php ?> <!DOCTYPE x> <![CDATA[x]]>",
    "</p></div></article><iframe src=http://x>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1)) [b](&#106;avascript:alert(1)) [c](\x01javascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>) [b](vbscript:x) [c](file:///etc/passwd) [d](//evil) [e](/x)",
    '[a](https://x" onclick="alert(1)) [b](<https://x" onclick="alert(1)>)',
    "[a](https://x 'title\" onclick=\"alert(1)')",
    '![a" onerror="alert(1)](https://x/y.png "t\\" onload=\\"x")',
    "![a](javascript:alert(1)) ![![b](http://x)](http://y)",
    "[![a](http://x/y.png)](http://z)",
    "<javascript:alert(1)> <https://x\"onclick=alert(1)> <a@b.c>",
    '```"><script>alert(1)</script>\nx\n```',
    "```x\" onclick=\"alert(1)\n</code></pre><script>\n```",
    "    </code></pre><script>alert(1)</script>",
    "`</code><script>alert(1)</script>`",
    "| <script> | b |\n|---|:-:|\n| <img src=x> | </table> |",
    r"$\text{<script>alert(1)</script>}$",
    r"$\text{&lt;script&gt;alert(1)&lt;/script&gt;}$",
    r"$\text{&#60;script&#62;}$ $<img src=x onerror=alert(1)>$ $&lt;b&gt;$",
    r"$\href{javascript:alert(1)}{x}$ $\class{x\" onclick=\"y}{z}$ $\style{color:red;background:url(http://x)}{y}$",
    r"$\color{red\" onclick=\"alert(1)}{x}$ $\textcolor{url(http://x)}{y}$",
    r"$$\begin{matrix}<script>&alert(1)\\</script>\end{matrix}$$",
    r"$\hspace{1em\" onclick=\"x}$ $\unicode{60}$ $\mathrm{</math><script>}$",
    "$" + "{" * 3000 + "}" * 3000 + "$",
    "$" + r"\sqrt" * 300 + "x$",
    "$" + "x^" * 300 + "x$",
    "$" + r"\hat" * 400 + "x$",
    "$" + r"\mathbf" * 250 + "x$",
    "\\[\n" * 3000,
    r"$\newcommand{\a}{\b\b}\newcommand{\b}{\a\a}\a$",
    ">" * 500 + " deep",
    "- " * 500 + "deep",
    "[" * 2000,
    "*" * 2000 + "a",
    "\\[" * 500 + "\\(" * 500 + "$$" * 501,
    "\0 \ufeff \u202e x",
)  # fmt: skip
PIECES = st.one_of(
    st.sampled_from(ATTACKS[:26]), st.text(alphabet="<>\"'&;`*_[]()!$\\{}|\n \t-#~:/ax1", max_size=12)
)


@pytest.mark.parametrize("text", ATTACKS)
def test_an_attack_stays_text(text: str) -> None:
    assert read(render(text)).complaints == []
    assert read(typed_html(text)).complaints == []


@given(pieces=st.lists(PIECES, max_size=8))
def test_attacks_joined_stay_text(pieces: list[str]) -> None:
    assert read(render("".join(pieces))).complaints == []


@given(text=st.text())
def test_any_text_is_well_formed(text: str) -> None:
    assert read(render(text)).complaints == []
    assert read(typed_html(text)).complaints == []


def test_pictures_are_words_and_fetch_nothing() -> None:
    html = render("![a cat](http://x/cat.png) ![](http://x/y.png)")
    assert read(html).tags == ["p", "span", "span"]
    assert "a cat" in html


def test_links_open_elsewhere_and_tell_nothing() -> None:
    html = render("[here](https://x.y/z?a=1&b=2)")
    assert (
        '<a href="https://x.y/z?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">here</a>'
        in html
    )


def test_definitions_of_sources_stay_visible() -> None:
    assert '<p dir="auto">[1]: <a href="http://there"' in render("as in [1]\n\n[1]: http://there")


def test_line_breaks_and_indentation_stay_without_a_fence() -> None:
    assert render("def f():\n    return 1\n\tx") == '<p dir="auto">def f():\n    return 1\n\tx</p>\n'


def test_a_hard_break_is_one_break() -> None:
    assert render("a  \nb\\\nc") == '<p dir="auto">a<br>b<br>c</p>\n'


def test_code_keeps_tabs_and_indentation() -> None:
    assert read(render("```python\ndef f():\n\tif x:\n        return\n\n```")).text.endswith(
        "def f():\n\tif x:\n        return\n\n"
    )


LANGUAGES = st.sampled_from(["python", "js", "c", "html", "diff", "bash", "json", "x"])


@given(code=st.text(alphabet="abc def\"'#\\	 {}()=0x/*-", max_size=60), language=LANGUAGES)
def test_colours_change_no_letter_of_code(code: str, language: str) -> None:
    html = code_html(code, language)
    assert read(html[html.index("<code>") : -len("</pre></div>")]).text == code


def test_known_languages_are_coloured_and_others_are_plain() -> None:
    assert '<span class="k">def</span>' in code_html("def f(): ...", "python title=x")
    assert "<code>def f(): ...</code>" in code_html("def f(): ...", "klingon")
    assert "<code>def f(): ...</code>" in code_html("def f(): ...", "")


def test_very_long_code_is_plain() -> None:
    assert code_html("x = 1\n" * LONGEST, "python").count("<span") == 1


@pytest.mark.parametrize(
    "text",
    [
        "$5 and $6",
        "$5-$10",
        "US$5 or CA$6",
        "$HOME:$PATH",
        "a $ b $ c",
        "$$",
        "$5",
        r"\$x\$",
        "`$x$`",
        r"\(",
        "$x",
    ],
)
def test_prices_and_shells_are_no_formulas(text: str) -> None:
    html = render(text)
    assert "<math" not in html
    assert 'class="tex"' not in html


@pytest.mark.parametrize("text", ["$x^2$", r"\(x^2\)", "is $x^2$, so", "($x^2$)", "$x^2$-axis", "**$x^2$**"])
def test_formulas_within_a_line(text: str) -> None:
    html = render(text)
    assert '<math display="inline" dir="ltr">' in html
    assert "<msup>" in html


@pytest.mark.parametrize(
    "text",
    [
        "$$x^2$$", "$$\nx^2\n$$", r"\[x^2\]", "\\[\nx^2\n\\]", "so\n$$\nx^2\n$$\nand", "- a\n  $$\n  x^2\n  $$",
        "so $$x^2$$.", "$$\n- x^2\n+ 1\n$$",
    ],
)  # fmt: skip
def test_formulas_on_their_own(text: str) -> None:
    html = render(text)
    assert '<math display="block" dir="ltr">' in html
    assert "<msup>" in html


def test_a_long_formula_can_be_broken_after_its_operators_but_not_after_its_signs() -> None:
    html = render(f"$y = -a + (-b) < {'c, ' * 30} d$")
    rows = re.findall("<mrow>(.*?)</mrow>", html)
    assert [re.sub("<.*?>", "", row) for row in rows[:5]] == [
        "y=",
        "\N{MINUS SIGN}a+",
        "(\N{MINUS SIGN}b)&lt;",
        "c,",
        "c,",
    ]
    assert render("$y = -a + b < c$").count("<mrow>") == 1


def test_a_broken_formula_is_shown_as_it_was_written() -> None:
    assert render(r"$\frac{a$") == '<p dir="auto"><code class="tex" dir="ltr">$\\frac{a$</code></p>\n'


def test_what_was_typed_stays_as_it_was_typed() -> None:
    typed = "  *args and __init__\n\n\n    x <b>\n```py\nx\n```\nend"
    assert typed_html(typed).startswith(
        '<p class="typed" dir="auto">  *args and __init__\n\n\n    x &lt;b&gt;</p><div class="code">'
    )
    assert typed_html(typed).endswith('<p class="typed" dir="auto">end</p>')


def test_task_lists_have_boxes() -> None:
    html = render("- [ ] to do\n- [x] *done*\n- [x]no box\n")
    assert html.count("<input") == 2 and html.count(" checked") == 1
    assert '<li class="task"><input type="checkbox" disabled aria-label="To do">to do</li>' in html
    assert "<li>[x]no box</li>" in html


def test_bare_links_lead_there_and_nowhere_else() -> None:
    assert 'href="https://a.example/b_c_d"' in render("See https://a.example/b_c_d.")
    for text in (
        "example.com",
        "javascript:alert(1)",
        "ftp://a.example",
        "me@a.example",
        "`https://a.example`",
    ):
        assert "<a" not in render(text)


@pytest.mark.parametrize("name", ["align", "aligned", "align*", "split"])
def test_equations_are_aligned(name: str) -> None:
    latex = rf"\begin{{{name}}} a &= b \\ c &= d \end{{{name}}}"
    for text in (latex, f"$${latex}$$", latex.replace(r"\\ ", "\\\\\n")):
        html = render(f"So\n\n{text}\n")
        assert html.count('<mtd columnalign="right">') == 2 and "&amp;" not in html


def test_an_environment_without_an_end_is_text() -> None:
    assert "<math" not in render("\\begin{align}\na &= b\n\n\\end{align}")


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("**重要\uff1a**这是正文。他说**「重点」**内容。", ["重要\uff1a", "「重点」"]),
        ("**한국어(괄호)**는 조사.", ["한국어(괄호)"]),
        ("**加粗\uff08x\uff09**后面", ["加粗\uff08x\uff09"]),
        ("他说**“重点”**内容", ["“重点”"]),
        ("使い方は**`x`**です", ['<code dir="ltr">x</code>']),
        ("**Note:**x and **(a)**b", []),
        ("**空白 **后面", []),
    ],
)
def test_bold_words_close_beside_punctuation_in_scripts_without_spaces(text: str, bold: list[str]) -> None:
    html = render(text)
    assert [f"<strong>{words}</strong>" in html for words in bold] == [True] * len(bold)
    assert html.count("<strong>") == len(bold) and ("*" in html) == (not bold)


@pytest.mark.parametrize("mark", ["*", "~~"])
def test_other_marks_close_there_too(mark: str) -> None:
    assert mark not in render(f"これは{mark}「強調」{mark}です。")


def test_every_text_runs_in_its_own_direction_and_code_from_left_to_right() -> None:
    html = render(
        "# א\n\nא `x` $y$\n\n- א\n- ב\n\n  ג\n\n1. א\n\n> א\n\n| א |\n|--:|\n| 1 |\n\n```\nx\n```\n"
    )
    for tag in ("h1", "ul", "ol", "th", "td"):
        assert f'<{tag} dir="auto"' in html and f"<{tag}>" not in html
    assert html.count("<p>") == 3, "the paragraphs of a list run in the direction of the list"
    for code in ('<code dir="ltr">x', '<pre tabindex="0" dir="ltr">', '"inline" dir="ltr">'):
        assert code in html
    assert typed_html("א\nb").startswith('<p class="typed" dir="auto">')


README = "# T\n```python\nx = 1\n```\nend\n"


@pytest.mark.parametrize("info", ["markdown", "md", "Markdown title=x"])
def test_a_block_of_markdown_that_holds_blocks_stays_one(info: str) -> None:
    for html in (render(f"```{info}\n{README}```\nafter"), typed_html(f"```{info}\n{README}```\nafter")):
        reader = read(html)
        assert reader.tags.count("pre") == 1 and README in reader.text
        assert "after" in html.partition("</pre>")[2]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("```markdown\n# T\n```\n\n```python\nx\n```\n", 2),
        ("```\n```python\nx\n```\nafter\n", 1),
        ("````markdown\n```python\n````\nafter ```\n", 1),
        ("```md\n```md\n```py\nx\n```\n```\n```\nafter\n", 1),
        ("- a\n\n  ```md\n  ```sh\n  ls\n  ```\n  x\n  ```\n\n  after\n", 1),
        ("> ```md\n> ```sh\n> ls\n> ```\n> x\n\nafter\n", 1),
        ("```md\n~~~py\n```\nafter\n", 1),
    ],
)
def test_other_blocks_end_as_in_commonmark(text: str, blocks: int) -> None:
    html = render(text)
    assert html.count("<pre") == blocks
    assert ("after" in text) == ("after" in html.rpartition("</pre>")[2])
