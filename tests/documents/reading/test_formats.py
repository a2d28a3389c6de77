"""Spreadsheets, presentations, books, texts of other word processors: what they say, and damaged ones."""

import re
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
import xlsxwriter
from pptx import Presentation
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE

from app.documents.reading.table import labelled
from app.errors import DocumentUnreadable
from tests.documents import files
from tests.documents.reading.test_reading import read, read_apart

RTF = r"{\rtf1\ansi\ansicpg1251{\info{\title Rules}}\b \'cf\'f0\'e8\'e2\'e5\'f2\b0\par 3 \u8364?%s}"


def workbook(path: Path) -> None:
    """A title, names of columns, 600 rows; a second sheet."""
    book = xlsxwriter.Workbook(path, {"default_date_format": "yyyy-mm-dd"})
    staff, rooms = book.add_worksheet("Staff"), book.add_worksheet("Rooms")
    staff.write(0, 0, "Staff of 2026")
    staff.write_row(2, 0, ["name", "born", "salary"])
    for number in range(600):
        staff.write_row(3 + number, 0, [f"Person{number}", date(1970, 1, 1 + number % 28), 5000.5 + number])
    rooms.write_row(0, 0, ["Elm", 3])
    book.close()


def slides(path: Path) -> None:
    """A slide with a title, a text, a table, a group and notes; one without anything."""
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Deliveries", "The van leaves\nat 6:40."
    table = slide.shapes.add_table(1, 2, 0, 0, 9, 9).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Köln", "Friday"
    slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = "Grouped"
    slide.notes_slide.notes_text_frame.text = "Mention Lyon."
    deck.slides.add_slide(deck.slide_layouts[6])
    deck.save(str(path))


def book(path: Path) -> None:
    """Two chapters, which are not in the order of their names, and one that is missing."""
    items = "".join(f'<item id="{one}" href="{one}%20x.html"/>' for one in "abc")
    order = "".join(f'<itemref idref="{one}"/>' for one in "bac")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/container.xml", '<container xmlns="c"><rootfile full-path="in/p.opf"/></container>'
        )
        archive.writestr(
            "in/p.opf", f'<package xmlns="p"><manifest>{items}</manifest><spine>{order}</spine></package>'
        )
        for one, name in (("a", "Two"), ("b", "One")):
            page = f"<html><head><title>t</title></head><body><h1>{name}</h1>caf&eacute;</body></html>"
            archive.writestr(f"in/{one} x.html", page)


def open_document(path: Path, kind: str, body: str, styles: str = "", outline: str = "") -> Path:
    """A file of OpenDocument with this body, these styles of its own, and this outline's style."""
    names = ("office", "text", "table", "drawing", "svg-compatible", "style")
    spaces = " ".join(
        f'xmlns:{name.partition("-")[0]}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:automatic-styles>{styles}</office:automatic-styles>"
            f"<office:body>{body}</office:body></office:document-content>",
        )
        archive.writestr("meta.xml", "<m><meta><title>Lease</title></meta></m>")
        archive.writestr("styles.xml", f"<office:document-styles {spaces}>{outline}</office:document-styles>")
    return path


def open_text(path: Path) -> None:
    """A text with a heading, lists, a table, a box, a note, a comment and a deleted part."""
    open_document(
        path,
        "text",
        "<office:text><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
        '<text:h text:outline-level="2">Le<text:s text:c="2"/>ase</text:h>'
        "<text:list><text:list-header><text:p>of</text:p></text:list-header><text:list-item><text:p>salt</text:p>"
        "<text:list><text:list-item><text:p>fine</text:p></text:list-item></text:list></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p><text:p>b</text:p></table:table-cell>"
        "<table:table-cell/></table:table-row></table:table>"
        "<text:section><text:p>For<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>Noted.</text:p></text:note-body></text:note> <text:span>Ann</text:span><office:annotation>"
        "<text:p>Ask her.</text:p></office:annotation>.<drawing:frame><drawing:text-box><text:p>Boxed</text:p>"
        "</drawing:text-box><svg:desc>A plan</svg:desc></drawing:frame></text:p></text:section></office:text>",
    )


def open_slides(path: Path) -> None:
    slide = '<drawing:page drawing:name="Start"><text:p>Deliveries</text:p></drawing:page>'
    open_document(path, "presentation", f"<office:presentation>{slide}</office:presentation>")


def open_sheet(path: Path) -> None:
    cells = (("city", "code"), ("Köln", "50667"))
    rows = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>'
            for cell in row
        )
        + "</table:table-row>"
        for row in cells
    )
    body = f'<table:table table:name="Cities">{rows}</table:table>'
    open_document(path, "spreadsheet", f"<office:spreadsheet>{body}</office:spreadsheet>")


def rich_text(path: Path) -> None:
    path.write_text(RTF % "")


FORMATS: dict[str, tuple[Callable[[Path], None], str, list[str]]] = {
    "plan.pptx": (
        slides,
        "# Slide 1: Deliveries The van leaves at 6:40. | Köln | Friday | Grouped Notes: Mention Lyon.",
        ["Left out: 1 slide of 2 without text (perhaps only pictures)."],
    ),
    "book.epub": (book, "# One café # Two café", ["Missing in the file: 1 chapter of 3."]),
    "lease.odt": (
        open_text,
        "## Le ase of - salt - fine | a b | | For Ann. [Picture: A plan] Noted. Comment: Ask her. Boxed",
        [],
    ),
    "plan.odp": (open_slides, "# Start Deliveries", []),
    "rules.rtf": (rich_text, "Привет 3 €", []),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_read_in_order_whatever_its_name(tmp_path: Path, name: str) -> None:
    make, text, notes = FORMATS[name]
    make(tmp_path / name)
    (tmp_path / name).rename(tmp_path / "renamed.txt")
    found, told = read(tmp_path / "renamed.txt")
    assert (" ".join(found.split()), told) == (text, notes)


PAGE = "<html><body><p>Eggs boil.</p></body></html>"
FLAT = (
    '<?xml version="1.0"?>\n<office:document xmlns:office="urn:o" xmlns:text="urn:t" xmlns:table="urn:b">\n'
    "<office:body>%s</office:body>\n</office:document>"
)
SHEET = """<office:spreadsheet><table:table table:name="Staff"><table:table-row>
<table:table-cell><text:p>name</text:p></table:table-cell><table:table-cell><text:p>room</text:p></table:table-cell>
<table:table-cell table:number-columns-repeated="16382"/></table:table-row>
<table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>12</text:p></table:table-cell>
</table:table-row></table:table></office:spreadsheet>"""
WORD = """<?xml version="1.0"?><?mso-application progid="Word.Document"?>
<w:wordDocument xmlns:w="w" xmlns:o="o">
<o:DocumentProperties><o:Author>Ann</o:Author></o:DocumentProperties><w:body>
<w:p><w:r><w:t>Eggs</w:t></w:r><w:r><w:tab/><w:t xml:space="preserve"> bo</w:t></w:r><w:r><w:t>il.</w:t></w:r></w:p>
<w:p><w:del><w:r><w:delText>Once.</w:delText></w:r></w:del></w:p></w:body></w:wordDocument>"""
BOOK = """<?xml version="1.0"?>
<!DOCTYPE article PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://nowhere" [<!ENTITY eggs "Eggs">]>
<!-- <article> -->
<article><title>&eggs; <emphasis>boil</emphasis></title><para>Two&nbsp;of:<list><item><para>one</para></item>
</list></para><programlisting>if x:
    y()</programlisting></article>"""
FEED = """<rss version="2.0"><channel><title>News</title><item><title>Rain &amp; sun</title>
<description>&lt;p&gt;It rains.&lt;/p&gt;&lt;p&gt;A lot.&lt;/p&gt;</description></item></channel></rss>"""
DRAWING = """<svg xmlns="http://www.w3.org/2000/svg"><style>.a{}</style><g><path d="M0 0"/><text>
<tspan>Kit</tspan><tspan>chen</tspan></text><text>Bath</text></g></svg>"""
PROPERTIES = """<?xml version="1.0"?><plist version="1.0"><dict><key>Name</key><string>Eggs</string>
<key>Boiled</key><true/><key>Files</key><array><string>a</string><integer>2</integer></array></dict></plist>"""
MAIL = (
    "Date: Mon, 2 Mar 2026 08:00:00 +0000\nSubject: Rent\nMIME-Version: 1.0\nContent-Type: multipart/related;\n"
    f' boundary="B"; type="text/html"\n\n--B\nContent-Type: text/html\n\n{PAGE}\n--B--\n'
)
NOTEBOOK = '{"cells": [{"cell_type": "markdown", "source": ["Eggs boil."]}], "metadata": {}, "nbformat": 4}'


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("lease.pdf", "Eggs boil.", "Eggs boil."),
        ("lease.docx", "Eggs boil.", "Eggs boil."),
        ("lease.doc", "Eggs boil.", "Eggs boil."),
        ("lease.png", "Eggs boil.", "Eggs boil."),
        ("lease.ipynb", "Eggs boil.", "Eggs boil."),
        ("lease.pdf", PAGE, "Eggs boil."),
        ("lease.doc", PAGE, "Eggs boil."),
        ("page.txt", f'<?xml version="1.0"?>\n<!-- saved -->\n{PAGE}', "Eggs boil."),
        ("lease.doc", "{\\rtf1 Eggs boil.}", "Eggs boil."),
        ("lease.doc", MAIL, "# Rent Date: Mon, 02 Mar 2026 08:00:00 +0000 Eggs boil."),
        ("book.ipynb.txt", NOTEBOOK, "Eggs boil."),
        ("lease.xml", FLAT % "<office:text><text:p>Eggs\n  boil.</text:p></office:text>", "Eggs boil."),
        ("staff.fods", FLAT % SHEET, "# Staff name: 12; room: 12"),
        ("guide.txt", BOOK, "Eggs boil Two\u00a0of: one if x:\n    y()"),
        ("a.fb2", '<FictionBook xmlns="f"><p>Eggs <image alt="boil"/></p></FictionBook>', "Eggs boil"),
        ("news.rss", FEED, "News Rain & sun It rains. A lot."),
        ("plan.svg", DRAWING, "Kitchen Bath"),
        ("Info.plist", PROPERTIES, "Name: Eggs Boiled: True Files: a Files: 2"),
        ("cut.svg", DRAWING[:-6], DRAWING[:-6]),
        ("part.html", "<article><p>Eggs boil.</article>", "Eggs boil."),
        ("data.xml", '<?xml version="1.0"?><part number="5"/>', '<?xml version="1.0"?><part number="5"/>'),
        ("people.xls", "name,room\nAda,12\n", "name: Ada; room: 12"),
        ("people.xlsx", "name,room\nAda,12\n", "name: Ada; room: 12"),
    ],
)
def test_a_file_with_a_wrong_name_is_read_as_what_it_is(
    tmp_path: Path, name: str, content: str, text: str
) -> None:
    (tmp_path / name).write_text(content)
    found, notes = read(tmp_path / name)
    assert (" ".join(found.split()), notes) == (" ".join(text.split()), [])


def test_a_word_document_in_xml_is_read_as_paragraphs_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "lease.xml").write_text(WORD)
    assert read(tmp_path / "lease.xml") == (
        "Eggs\t boil.\n\n",
        ["Its headings and automatic numbers were left out: save it as .docx, and add that file."],
    )


def test_blanks_between_formatted_words_of_opendocument_are_kept(tmp_path: Path) -> None:
    words = (
        "<office:text><text:p><text:span>Eggs</text:span> <text:span>boil.</text:span></text:p></office:text>"
    )
    assert read(open_document(tmp_path / "lease.odt", "text", words))[0] == "Eggs boil.\n\n"


@pytest.mark.parametrize("name", ["lease.doc", "lease.zip", "lease.png", "lease.pdf"])
def test_a_word_document_is_read_under_the_name_of_another_kind(tmp_path: Path, name: str) -> None:
    assert "Boil them." in read(files.docx(tmp_path / "lease.docx").rename(tmp_path / name))[0]


def test_each_value_of_a_spreadsheet_has_the_name_of_its_column(tmp_path: Path) -> None:
    workbook(tmp_path / "people.xlsx")
    text, notes = read(tmp_path / "people.xlsx")
    assert text.startswith("# Staff\n\nStaff of 2026\nname: Person0; born: 1970-01-01; salary: 5000.5\n")
    assert "\nname: Person431; born: 1970-01-12; salary: 5431.5\n" in text
    assert text.endswith("\n\n# Rooms\n\nElm; 3\n\n") and notes == []
    open_sheet(tmp_path / "cities.ods")
    assert read(tmp_path / "cities.ods")[0] == "# Cities\n\ncity: Köln; code: 50667\n\n"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["Item", "2025", "2026"], ["Rent", "700", "740"]], "Item: Rent; 2025: 700; 2026: 740"),
        ([["Ada", "1985", "2003"], ["Bo", "1990", "2001"]], "Ada; 1985; 2003 Bo; 1990; 2001"),
        (
            [["Costs", ""], ["", "May"], ["Item", "Sum", ""], ["Rent", "740", "due"]],
            "Costs May Item: Rent; Sum: 740; due",
        ),
        ([["Item", "Sum"], ["Rent", ""], ["Heat", ""]], "Item: Rent Item: Heat Sum"),
        ([["Item", "Sum"]], "Item; Sum"),
    ],
)
def test_names_of_columns_are_told_from_values(rows: list[list[str]], text: str) -> None:
    assert " ".join(labelled(rows)) == text


def test_comments_of_a_spreadsheet_are_read(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(tmp_path / "rents.xlsx") as book:
        book.add_worksheet("Rents").write_comment("A1", "Ask Ada.", {"author": "Bo"})
    assert read(tmp_path / "rents.xlsx")[0] == "# Comments\n\nAsk Ada.\n"
    cell = (
        '<table:table-cell office:value-type="string"><office:annotation><text:p>Ask Bo.</text:p>'
        "</office:annotation><text:p>740</text:p></table:table-cell>"
    )
    rows = f'<table:table table:name="Rents"><table:table-row>{cell}</table:table-row></table:table>'
    open_document(tmp_path / "rents.ods", "spreadsheet", f"<office:spreadsheet>{rows}</office:spreadsheet>")
    assert read(tmp_path / "rents.ods")[0] == "# Rents\n\n740\n\n# Comments\n\nAsk Bo.\n"


def test_formulas_of_opendocument_are_read(tmp_path: Path) -> None:
    frame = '<d:object xmlns:d="d" xmlns:x="x" x:href="./Object 1"/>'
    path = open_document(
        tmp_path / "a.odt", "text", f"<office:text><text:p>So {frame}.</text:p></office:text>"
    )
    formula = "<math><semantics><mi>E</mi>=m<annotation>E = m</annotation></semantics></math>"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("Object 1/content.xml", formula)
    assert read(path)[0] == "So E=m.\n\n"


def test_charts_of_any_kind_are_read(tmp_path: Path) -> None:
    deck, bars, points = Presentation(), CategoryChartData(), XyChartData()
    bars.categories = ["Rent", "Heat"]
    bars.add_series("2026", (740, None))
    points.add_series("Depth").add_data_point(1.5, 2)
    shapes = deck.slides.add_slide(deck.slide_layouts[6]).shapes
    shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, bars)
    shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, 9, 9, points)
    deck.save(str(tmp_path / "a.pptx"))
    assert "2026: Rent: 740\nDepth: 1.5: 2\n" in read(tmp_path / "a.pptx")[0]
    edited(tmp_path / "a.pptx", tmp_path / "b.pptx", b"c:barChart", b"c:bar3DChart")
    assert read(tmp_path / "b.pptx") == read(tmp_path / "a.pptx")


def edited(path: Path, copy: Path, before: bytes, after: bytes) -> Path:
    """A copy of an archive in which some bytes are replaced."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as made:
        parts = {one: archive.read(one) for one in archive.namelist()}
        assert any(before in data for data in parts.values())
        for one, data in parts.items():
            made.writestr(one, data.replace(before, after))
    return copy


WORD_TYPE = b"vnd.openxmlformats-officedocument.wordprocessingml.document.main"
SLIDES_TYPE = b"vnd.openxmlformats-officedocument.presentationml.presentation.main"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.docm", b"vnd.ms-word.document.macroEnabled.main"),
        ("a.dotx", b"vnd.openxmlformats-officedocument.wordprocessingml.template.main"),
        ("a.dotm", b"vnd.ms-word.template.macroEnabledTemplate.main"),
        ("a.ppsx", b"vnd.openxmlformats-officedocument.presentationml.slideshow.main"),
        ("a.pptm", b"vnd.ms-powerpoint.presentation.macroEnabled.main"),
        ("a.potm", b"vnd.ms-powerpoint.template.macroEnabled.main"),
    ],
)
def test_templates_shows_and_files_with_macros_are_read(tmp_path: Path, name: str, kind: bytes) -> None:
    plain, usual = tmp_path / "plain", SLIDES_TYPE if name.startswith("a.p") else WORD_TYPE
    (slides if usual == SLIDES_TYPE else files.docx)(plain)
    assert read(edited(plain, tmp_path / name, usual, kind))[0] == read(plain)[0]


def test_a_style_without_a_type_is_one_of_paragraphs(tmp_path: Path) -> None:
    plain = files.docx(tmp_path / "plain.docx")
    changed = edited(plain, tmp_path / "a.docx", b' w:type="paragraph"', b"")
    assert read(changed)[0] == read(plain)[0]


def test_words_in_styles_of_staroffice_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_text(RTF % r"{\i0\*\cs7\cf0 Eggs}")
    assert "Eggs" in read(tmp_path / "a.rtf")[0]


def test_what_a_rich_text_loses_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.rtf").write_text(RTF % r"{\footnote x}")
    assert read(tmp_path / "a.rtf")[1] == ["Its footnotes, comments, headers and footers were left out."]
    (tmp_path / "a.rtf").write_text((RTF % "")[:-1])
    assert read(tmp_path / "a.rtf")[1] == ["Its end is missing: the file was cut off."]


def packed(path: Path, says: str, member: str = "mimetype", more: str = "") -> None:
    """An archive with a part that says what it is, and perhaps another one."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, says)
        if more:
            archive.writestr(more, "<manifest:encryption-data/>")


def half(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        make(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return made


ODT, EPUB = "application/vnd.oasis.opendocument.text", "META-INF/container.xml"
NO_SHEET = "<office:spreadsheet/>"
DAMAGED = r"^\w+\.\w+ is damaged: save it again, or as text, and add that file\.$"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000)


@pytest.mark.parametrize(
    ("name", "make", "sentence"),
    [
        ("cut.pdf", lambda path: path.write_bytes(b"%PDF-1.4"), DAMAGED),
        ("cut.xlsx", half(workbook), DAMAGED),
        ("cut.pptx", half(slides), DAMAGED),
        ("cut.epub", half(book), DAMAGED),
        ("cut.eml", lambda path: path.write_bytes(b"From: a@"), DAMAGED),
        ("cut.fodt", lambda path: path.write_bytes(b"<office:document xmlns:office='a'>"), DAMAGED),
        ("bare.ipynb", lambda path: path.write_bytes(b"{}"), DAMAGED),
        ("words.odt", lambda path: path.write_bytes(b"PK\x03\x04"), DAMAGED),
        ("hollow.odt", lambda path: packed(path, ODT), DAMAGED),
        ("locked.odt", lambda path: packed(path, ODT, more="META-INF/manifest.xml"), "is encrypted: save it"),
        ("bought.epub", lambda path: packed(path, "", EPUB, "META-INF/rights.xml"), "is encrypted: save it"),
        ("locked.xlsx", lambda path: path.write_bytes(OLE), "an old or encrypted Office file"),
        ("old.xls", lambda path: path.write_bytes(OLE), DAMAGED),
        ("empty.ods", lambda path: open_document(path, "spreadsheet", NO_SHEET), "There is no text in empty.ods"),
        ("empty.pptx", lambda path: Presentation().save(str(path)), "has no text in its 0 slides"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(
    tmp_path: Path, name: str, make: Callable[[Path], object], sentence: str
) -> None:
    make(tmp_path / name)
    with pytest.raises(DocumentUnreadable, match=sentence):
        read_apart(tmp_path / name)


@pytest.mark.parametrize("content", ["", "<office:body/>", "<office:body><office:text/></office:body>"])
def test_a_flat_file_without_paragraphs_has_no_text(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.fodt").write_text(f"<office:document xmlns:office='a'>{content}</office:document>")
    assert read(tmp_path / "a.fodt")[0] == ""


USUAL = re.compile(rb"http://schemas\.openxmlformats\.org/(wordprocessingml|officeDocument)/2006/")


def test_a_strict_word_document_is_read(tmp_path: Path) -> None:
    plain, strict = files.docx(tmp_path / "plain.docx"), tmp_path / "strict.docx"
    with zipfile.ZipFile(plain) as archive, zipfile.ZipFile(strict, "w") as copy:
        for one in archive.namelist():
            copy.writestr(one, USUAL.sub(rb"http://purl.oclc.org/ooxml/\1/", archive.read(one)))
    assert read(strict)[0] == read(plain)[0]
