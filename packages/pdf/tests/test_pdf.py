"""PDF files: one row each, with the text in reading order, or with a reason."""

import gzip
import os
import resource
import signal
import string
import struct
import time
import zlib
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from pdf_files import column, pdf, scanned, text
from pypdfium2 import PdfDocument

from gristmill.errors import UserError
from gristmill.stages.contract import Piece
from gristmill.stages.shared.trees_file import trees_to_bytes
from gristmill_pdf import reader
from gristmill_pdf.kernels.glyphs import CODE, FONT, GLYPH_COLUMNS
from gristmill_pdf.kernels.segments import (
    ACCENTS,
    FONT_BOLD,
    FONT_HEAVY,
    FONT_MATH,
    SEGMENT_COLUMNS,
    join_glyphs,
)
from gristmill_pdf.layout import child, document, kinds, page
from gristmill_pdf.layout.blocks import page_blocks
from gristmill_pdf.layout.characters import joined, logical, words_of
from gristmill_pdf.layout.child import PdfChild
from gristmill_pdf.layout.columns import TextSegment, regions
from gristmill_pdf.layout.confidence import confidence_of
from gristmill_pdf.layout.hidden import set_sizes
from gristmill_pdf.layout.lines import Block, TextLine, note_mark
from gristmill_pdf.layout.math_fonts import set_signs
from gristmill_pdf.layout.tables import join_tables

PAGE = [text(72, 700, "The mill grinds corn.")]


def row(tmp_path, data, name="a.pdf", **config):
    (tmp_path / name).write_bytes(data)
    [found] = reader.read(Piece(str(tmp_path / name), name), reader.Config(**config))
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_one_document_with_its_metadata(tmp_path, packed):
    info = "/Title (The mill) /Author (A. Miller) /CreationDate (D:20240131130000+01'00')"
    data = pdf(PAGE, info=info, catalog="/Lang (de-AT)")
    found = row(tmp_path, gzip.compress(data) if packed else data, "a.pdf.gz" if packed else "a.pdf")
    assert (found.text, found.title, found.language_hint, found.drop) == (
        "The mill grinds corn.",
        "The mill",
        "de-AT",
        None,
    )
    assert found.meta == '{"author":"A. Miller","created":"2024-01-31T12:00:00+00:00"}'
    assert found.timestamp_us == 1706702400_000000
    assert found.content_type == "application/pdf"


def test_metadata_is_a_line_of_text(tmp_path):
    found = row(
        tmp_path, pdf(PAGE, info="/Title <FEFF0041D80000420007000D00430000>", catalog=f"/Lang ({'de' * 5_000})")
    )
    assert (found.title, found.language_hint) == ("A\ufffdB C", None)
    assert (found.text, found.drop) == ("The mill grinds corn.", None)


def test_letters_of_a_font_that_is_not_in_the_file_are_read_one_by_one(tmp_path):
    """As with a font of the machine: no test needs one, and none is looked for."""
    signs = b"".join(b"<%s> Tj 10 0 Td " % sign.encode("utf-16-be").hex().encode() for sign in "水車は粉を")
    content = b"BT /J 10 Tf 72 700 Td %s ET" % signs
    name = b"/Type /Font /BaseFont /Ryumin-Light"
    form = (
        b"<</Type /XObject /Subtype /Form /BBox [0 0 600 800] /Resources <</Font <</J 11 0 R>>>> /Length %d>> stream\n"
        b"%s\nendstream" % (len(content), content)
    )
    font = b"<<%s /Subtype /Type0 /Encoding /UniJIS-UCS2-H /DescendantFonts [12 0 R]>>" % name
    cids = b"<<%s /Subtype /CIDFontType0 /FontDescriptor 13 0 R /CIDSystemInfo 14 0 R>>" % name
    descriptor = b"<</Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 /FontBBox [0 -200 1000 900]>>"
    system = b"<</Registry (Adobe) /Ordering (Japan1) /Supplement 2>>"
    data = pdf([b"/X Do"], resources="/XObject <</X 10 0 R>>", extra=[form, font, cids, descriptor, system])
    assert row(tmp_path, data).text == "水車は粉を"


def test_pages_and_blocks_are_offsets_and_boxes_in_the_text(tmp_path):
    found = row(tmp_path, pdf(PAGE, [text(72, 700, "Wheels turn."), text(72, 400, "Zürich mahlt.")]))
    pages, blocks = found.more
    whole = found.text.encode()
    assert found.text == "The mill grinds corn.\n\nWheels turn.\n\nZürich mahlt."
    assert [(one["start"], one["width"], one["height"], one["verdict"]) for one in pages] == [
        (0, 600, 800, None),
        (23, 600, 800, None),
    ]
    assert [whole[one["start"] :].decode().split()[0] for one in blocks] == ["The", "Wheels", "Zürich"]
    assert [one["page"] for one in blocks] == [0, 1, 1]
    box = blocks[2]
    assert box["left"] == 72
    assert box["top"] <= 390 < 400 <= box["bottom"]
    assert 120 < box["right"] < 150


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b" \n", "empty_file"),
        (b"<html>", "not_pdf"),
        (b"%PDF-1.4\nnothing", "corrupt_pdf"),
        (pdf([]), "empty_text"),
        (pdf(PAGE, PAGE, PAGE), "too_large"),
    ],
)
def test_a_file_without_text_has_a_reason(tmp_path, data, reason):
    found = row(tmp_path, data, max_pages=2)
    assert (found.drop, found.text) == (reason, None)


def test_a_larger_file_is_too_large(tmp_path):
    assert row(tmp_path, pdf(PAGE), max_record_bytes=100).drop == "too_large"


def test_columns_are_read_one_after_the_other_although_their_lines_are_level(tmp_path):
    left, first = column(60, 700, 12)
    right, second = column(320, 700, 12, first=500)
    title = [text(60, 740, "A title over both columns that is much wider than one of them, as it is usual", 12)]
    assert row(tmp_path, pdf([*title, *left, *right])).text.endswith(f"{first} {second}")


def test_a_short_band_of_columns_below_a_long_abstract_is_read_column_by_column(tmp_path):
    abstract, _ = column(60, 760, 12, width=95)
    left, first = column(60, 600, 12)
    right, second = column(320, 600, 12, first=500)
    level = [line for pair in zip(left, right, strict=True) for line in pair]
    assert row(tmp_path, pdf([*abstract, *left, *right])).text.endswith(f"{first} {second}")
    assert not row(tmp_path, pdf([*abstract, *level])).text.endswith(f"{first} {second}")


AUTHORS = [["Anna Miller", "Mill of the valley", "anna@mill.org"], ["Ben Baker", "Bakery of the town", "ben@bread.org"]]


@pytest.mark.parametrize("is_by_row", [False, True])
def test_short_blocks_side_by_side_are_read_one_after_the_other(tmp_path, is_by_row):
    """The content goes down each of them; that of a table goes from cell to cell of a row."""
    blocks = [[text(120 + 200 * n, 700 - 12 * m, line) for m, line in enumerate(one)] for n, one in enumerate(AUTHORS)]
    lines = [line for pair in zip(*blocks, strict=True) for line in pair] if is_by_row else [*blocks[0], *blocks[1]]
    title = text(150, 740, "How corn is ground and bread is baked", 16)
    found = row(tmp_path, pdf([title, *lines, *column(60, 640, 6, width=90)[0]])).text
    order = [found.index(line) for one in AUTHORS for line in one]
    assert (order == sorted(order)) == (not is_by_row)


def test_a_heading_below_columns_stays_above_its_text(tmp_path):
    left, first = column(60, 700, 12)
    right, second = column(320, 700, 12, first=500)
    below, third = column(60, 500, 6, width=90, first=800)
    found = row(tmp_path, pdf([*left, *right, text(60, 530, "The wheels", 12, "B"), *below])).text
    assert found.split("\n\n") == [f"{first} {second}", "The wheels", third]


def test_a_line_that_sticks_out_of_its_column_stays_in_it(tmp_path):
    left, _ = column(60, 700, 12)
    more, rest = column(60, 544, 6, first=200)
    right, second = column(320, 700, 19, first=500)
    out = text(60, 556, "then it runs into the margin with_a_long_name_of_code_x")
    assert row(tmp_path, pdf([*left, out, *more, *right])).text.endswith(f"{rest} {second}")


def test_a_wide_table_does_not_hide_two_columns(tmp_path):
    cells = [text(60 + 70 * n, 760 - 12 * m, f"cell{m}{n}") for m in range(5) for n in range(7)]
    left, first = column(60, 640, 12)
    right, second = column(320, 640, 12, first=500)
    assert row(tmp_path, pdf([*cells, *left, *right])).text.endswith(f"{first} {second}")


def test_rows_with_a_line_of_one_part_between_them_are_one_region():
    places = [(60, 240), (300, 480), *[(60, 120), (300, 400)] * 2] * 8  # a head, a note at the right, and two rows
    downs = [(at // 6) * 48 + (0, 12, 24, 24, 36, 36)[at % 6] for at in range(48)]
    segments = [
        TextSegment("corn", left * 64, y * 64, right * 64, y * 64, y * 64, 640, 20, 0, 0, 0, 0, left * 64, False, at)
        for at, ((left, right), y) in enumerate(zip(places, downs, strict=True))
    ]
    assert len(regions(segments)) == 1


def test_running_heads_and_page_numbers_are_removed(tmp_path):
    pages = []
    for n in range(6):
        lines, _ = column(60, 700, 6, first=100 * n)
        pages.append([text(60, 770, "The miller's handbook"), *lines, text(300, 30, str(n + 3))])
    found = row(tmp_path, pdf(*pages))
    assert "handbook" not in found.text
    assert not {str(n + 3) for n in range(6)} & set(found.text.split())


@pytest.mark.parametrize("gap", [0, 40])
def test_headings_at_the_top_of_pages_stay_although_only_their_numbers_differ(tmp_path, gap):
    """Their numbers are no numbers of pages: they have several parts."""
    pages = []
    for n in range(30):
        number, title = f"2.{n + 1}", "Setting the speed"
        head = [text(60, 730, number, 11, "B"), text(60 + gap, 730, title, 11, "B")]
        head = head if gap else [text(60, 730, f"{number} {title}", 11, "B")]
        pages.append([text(60, 770, f"The mill {n + 1}"), *head, *column(60, 700, 6, first=100 * n)[0]])
    found = row(tmp_path, pdf(*pages)).text
    assert [f"2.{n + 1} Setting the speed" in found for n in range(30)] == [True] * 30
    assert "The mill" not in found


def test_a_line_that_repeats_at_the_end_of_pages_is_text_if_other_pages_end_there_otherwise(tmp_path):
    pages = [[*column(60, 700, 54, first=100 * n)[0], text(60, 52, f"Turn. {n}")] for n in range(12)]
    for n in (3, 5, 7):
        pages[n][-1] = text(60, 52, "Example:")
    assert row(tmp_path, pdf(*pages)).text.count("Example:") == 3


def test_a_part_that_repeats_in_lines_at_the_top_makes_no_head_of_text(tmp_path):
    """`Function` is at the right of each line; the text is right below it."""
    pages = [
        [text(60, 700, f"grind{n}"), text(400, 700, "Function"), *column(60, 686, 9, first=99 * n)[0]] for n in range(9)
    ]
    found = row(tmp_path, pdf(*pages)).text
    assert [f"grind{n}" in found for n in range(9)] == [True] * 9


def test_the_first_pages_of_chapters_have_their_number_elsewhere(tmp_path):
    pages = []
    for n in range(20):
        place = text(300, 30, str(n + 5)) if n % 8 == 0 else text(500, 770, f"Mills {n + 5}")
        pages.append([place, *column(60, 700, 6, first=100 * n)[0]])
    found = row(tmp_path, pdf(*pages)).text
    assert "Mills" not in found
    assert not {"5", "13", "21"} & set(found.split())


def test_heads_that_are_the_titles_of_sections_are_removed(tmp_path):
    """Each occurs on two pages only, and in two lines."""
    pages = []
    for n in range(12):
        words = f"How a mill with {WHEELS[n // 2]} wheels"
        lines = [text(60, 745, words, 9), text(60, 734, "is built", 9), *column(60, 690, 6, first=100 * n)[0]]
        pages.append(lines if n % 2 else [text(60, 640, f"{n // 2 + 1}. {words} is built", 16), *lines[2:]])
    found = row(tmp_path, pdf(*pages)).text
    assert (found.count("How a mill"), found.count("is built")) == (6, 6)


WHEELS = ["two", "three", "four", "five", "six", "seven"]


@pytest.mark.parametrize(
    "line",
    [
        "Table 3 - continued from previous page",
        "(continues on next page)",
        "Continued on the next page",
        "Table 2.1: Mills (continued)",
        "(Fortsetzung der vorherigen Seite)",
        "(suite de la page précédente)",
        "(continued on page 7)",
    ],
)
def test_lines_that_only_say_that_a_table_goes_on_are_removed(tmp_path, line):
    pages = [[*column(60, 700, 6, first=100 * n)[0], text(60, 600, "The mill grinds on.")] for n in range(3)]
    pages[1].append(text(60, 570, line))
    pages[2].append(text(60, 570, "It was continued from the previous page to the next one."))
    found = row(tmp_path, pdf(*pages, font_entries="/Encoding /WinAnsiEncoding")).text
    assert line not in found
    assert found.endswith("one.")


def test_a_digit_that_is_no_number_at_the_edge_of_a_page_is_text(tmp_path):
    """`²` is a digit to Python, but int() does not read it."""
    pages = [[*column(60, 700, 6, first=100 * n)[0], text(300, 30, "²")] for n in range(3)]
    assert row(tmp_path, pdf(*pages)).drop is None


def test_pages_that_are_the_same_keep_their_lines(tmp_path):
    """Copies of a form have no running heads, although each of their lines repeats."""
    assert row(tmp_path, pdf(PAGE, PAGE, PAGE)).text.count("The mill grinds corn.") == 3


def test_a_line_in_the_middle_of_short_pages_is_no_running_head(tmp_path):
    """It is far from the edge, so it stays, although its neighbours have it at the same height."""
    pages = [[*column(60, 700, 6, first=100 * n)[0], text(60, 400, "Grind well.")] for n in range(6)]
    assert row(tmp_path, pdf(*pages)).text.count("Grind well.") == 6


def test_a_large_title_where_other_pages_have_their_running_head_stays(tmp_path):
    """Its number is the number of the page, too."""
    pages = []
    for n in range(6):
        head = text(60, 760, f"{n // 2 + 1} The wheel", 17) if n % 2 == 0 else text(60, 760, f"Part: The mill {n + 1}")
        pages.append([head, *column(60, 700, 6, first=100 * n)[0]])
    found = row(tmp_path, pdf(*pages)).text
    assert [f"{n} The wheel" in found for n in (1, 2, 3)] == [True, True, True]
    assert "The mill" not in found


def test_the_title_of_slides_that_grow_stays_once(tmp_path):
    lines = [text(60, 700 - 30 * n, f"Step {n} of the corn through the mill and out of the door.") for n in range(5)]
    slides = [[text(60, 760, "How corn is ground", 17), *lines[: n + 1]] for n in range(5)]
    assert 1 <= row(tmp_path, pdf(*slides)).text.count("How corn is ground") < 5


def slide(operators):
    """A page that is wider than high."""
    return pdf(*operators).replace(b"/MediaBox [0 0 600 800]", b"/MediaBox [0 0 900 800]")


def test_the_menu_at_the_side_of_slides_is_no_text(tmp_path):
    menu = [
        text(760, 600 - 30 * n, f"Part {words}", 6) for n, words in enumerate(["corn", "stones", "wheels", "sacks"])
    ]
    slides = [[*column(60, 700, 8, first=100 * n)[0], *menu] for n in range(5)]
    found = row(tmp_path, slide(slides)).text
    assert "Part" not in found
    assert "the0" in found


def test_text_far_beside_the_page_is_not_shown(tmp_path):
    """Slides put there what is still covered; a line that is a little too low may belong to a long table."""
    [*lines], _ = column(60, 700, 4)
    found = row(tmp_path, pdf([*lines, text(60, -30, "Low corn."), text(2060, -1700, "Covered corn.")])).text
    assert "Low corn." in found
    assert "Covered" not in found


def test_a_hyphenated_word_and_a_paragraph_are_joined_across_lines_and_pages(tmp_path):
    lines, words = column(60, 700, 3, width=60)
    more, others = column(60, 652, 2, width=60, first=200)
    one = [*lines, text(60, 664, "and every farmer of the valley who brings corn gets his tur-")]
    two = [text(60, 700, "bine flour on the same day, said the miller.")]
    assert row(tmp_path, pdf(one, two)).text == (
        f"{words} and every farmer of the valley who brings corn gets his turbine flour on the same day, "
        "said the miller."
    )
    assert others in row(tmp_path, pdf([*one, *more])).text


def test_a_table_becomes_markdown_rows(tmp_path):
    rows = [("Mill", "Stones", "Flour"), ("Upper", "2", "120"), ("Lower", "4", "310"), ("New", "6", "75")]
    operators = [
        text(80 + 120 * at, 600 - 14 * n, cell) for n, cells in enumerate(rows) for at, cell in enumerate(cells)
    ]
    expected = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert row(tmp_path, pdf(operators)).text == expected


def test_a_column_whose_cells_are_missing_in_some_rows_stays_a_column(tmp_path):
    """At the sides of the table too, such as the first one in the head and in the units below it."""
    rows = [
        ("", "Stones", "Sacks", "Miller"),
        ("", "(pairs)", "(day)", ""),
        ("Upper mill", "2", "120", ""),
        ("Lower mill", "4", "310", "Anna"),
    ]
    operators = [
        text(80 + 120 * at, 600 - 14 * n, cell) for n, cells in enumerate(rows) for at, cell in enumerate(cells) if cell
    ]
    found = row(tmp_path, pdf(operators)).text.split("\n")
    assert found == [
        "|  | Stones (pairs) | Sacks (day) | Miller |",
        "| Upper mill | 2 | 120 |  |",
        "| Lower mill | 4 | 310 | Anna |",
    ]


def cells_at(y, *cells):
    """A row of a table; an empty cell writes nothing."""
    return [text(60 + 120 * at, y, cell) for at, cell in enumerate(cells) if cell]


def test_a_table_goes_on_on_the_next_page(tmp_path):
    """Its head is there once, and a row that is on two pages is one row."""

    head = "Mill", "Stones", "Use"
    first = [
        *cells_at(346, "Upper", "2", "rye"),
        *cells_at(332, "Lower", "4", "barley"),
        *cells_at(318, "New", "6", "wheat of the"),
    ]
    rest = [
        *cells_at(742, "", "", "whole valley"),
        *cells_at(728, "Old", "1", "oats"),
        *cells_at(714, "Dam", "3", "spelt"),
    ]
    pages = [
        [*column(60, 760, 8)[0], *cells_at(364, *head), *first],
        [*cells_at(760, *head), *rest, *column(60, 500, 6)[0]],
    ]
    found = row(tmp_path, pdf(*pages)).text.split("\n")
    at = found.index("| Mill | Stones | Use |")
    assert found[at + 1 : at + 6] == [
        "| Upper | 2 | rye |",
        "| Lower | 4 | barley |",
        "| New | 6 | wheat of the whole valley |",
        "| Old | 1 | oats |",
        "| Dam | 3 | spelt |",
    ]


def test_the_head_of_a_table_on_many_pages_is_no_running_head(tmp_path):
    """It stays once."""

    towns = "Aldon", "Brill", "Corfe", "Dorton", "Exton", "Fenny"
    rows = [
        [cells_at(730 - 14 * n, f"Mill of {town}", f"{7 * n + k} sacks", town) for n in range(9)]
        for k, town in enumerate(towns)
    ]
    pages = [[*cells_at(760, "Name", "Flour", "Town"), *(one for cells in some for one in cells)] for some in rows]
    found = row(tmp_path, pdf(*pages)).text.split("\n")
    assert found[0] == "| Name | Flour | Town |"
    assert len(found) == 1 + 9 * len(towns)


def test_the_image_of_a_long_page_is_bounded():
    """However long and narrow the page is."""
    page = pdf([text(5, 700, "mill", 4)]).replace(b"[0 0 600 800]", b"[0 0  20 14400]")
    (image,) = document.render_page(page, 0)["images"]
    assert struct.unpack(">II", image[16:24])[1] <= document.MOST_SIDE


def test_a_row_may_be_on_more_than_two_pages():
    """Also if its rest is all that a page has below the head. Another table begins after text."""
    head = ["Mill", "Use"]
    tables = [Block("table", [], [head, *rows]) for rows in ([["New", "wheat"]], [["", "of the"]], [["", "valley"]])]
    other = Block("table", [], [head, ["Old", "oats"]])
    join_tables([[tables[0]], [tables[1]], [tables[2], Block("text", [])], [other]])
    assert [table.rows for table in tables] == [[head, ["New", "wheat\nof the\nvalley"]], [], []]
    assert other.rows == [head, ["Old", "oats"]]


def test_an_accent_between_two_letters_at_one_place_is_on_the_first(tmp_path):
    """It is not used again for the second one, from beyond its table."""
    encoding = "/Encoding /WinAnsiEncoding"
    operators = [text(60, 700, letter) for letter in ("a", "\u00b4", "b")]
    assert row(tmp_path, pdf(operators, font_entries=encoding)).text == "\u00e1b"


def test_one_mark_of_two_footnotes_is_written_once(tmp_path):
    """Whichever note it belongs to."""
    notes = [b"BT /F 5 Tf 60 %d Td 3 Ts (1) Tj 0 Ts /F 7 Tf ( A small note) Tj ET" % y for y in (300, 288)]
    body = b"BT /F 10 Tf 60 700 Td (Some words of the body text with a mark) Tj /F 6 Tf 3 Ts (1) Tj 0 Ts ET"
    others = [text(60, 688 - 12 * n, f"line {n} of the same body text that is as long as it is.") for n in range(2)]
    assert "a mark[1] line 0" in row(tmp_path, pdf([body, *others, *notes])).text


def test_lists_that_begin_again_on_each_page_keep_their_lines(tmp_path):
    """The line with the number of its page is none of the running heads."""
    words = ["corn", "rye", "oats", "spelt", "barley", "wheat", "bran", "meal", "flour", "grist"]
    pages = [
        [
            text(
                60,
                760 - 28 * n,
                f"({n + 1}) What is the {words[(n * k + n + k) % 10]} of mill {chr(65 + n)}{chr(65 + k)}?",
            )
            for n in range(25)
        ]
        for k in range(12)
    ]
    assert row(tmp_path, pdf(*pages)).text.count("What is the") == 300


def test_a_region_of_nothing_but_spaces_is_no_text():
    """Such as the wide space of Chinese files, alone on a page."""
    assert page_blocks([TextSegment("\u3000", 60, 60, 70, 70, 70, 640, 1, 0, 0, 0, 0, 70, False, 0)]) == []


def test_rows_of_nothing_but_formulas_belong_to_their_table():
    """Below a head; formulas above each other alone are no table."""

    def rows_of(*rows):
        cells = [(60 + 80 * at, 100 + 14 * n, cell) for n, row in enumerate(rows) for at, cell in enumerate(row)]
        segments = [
            TextSegment(
                *(cell, x * 64, (y - 10) * 64, (x + 20) * 64, (y + 2) * 64, y * 64, 640, len(cell), 0, 0, 0),
                *(0 if cell.isalpha() else len(cell), (x + 20) * 64, False, at),
            )
            for at, (x, y, cell) in enumerate(cells)
        ]
        return [block.rows for block in page_blocks(segments)]

    formulas = [["x+1", "1/2", "0", "1/2"], ["z+1", "0", "1/2", "0"]]
    head = ["Axis", "First", "Second", "Third"]
    assert rows_of(head, *formulas) == [[head, *formulas]]
    assert not any(rows_of(*formulas))


def test_cells_in_a_code_font_end_at_wide_gaps(tmp_path):
    """Among others in an ordinary font; code keeps such gaps as spaces, also with a remark in another font."""
    rows = [
        ("textbf(bold)", "bf(bold)", "bold"),
        ("textit(slant)", "it(slant)", "slanted"),
        ("emph(word)", "em", "word"),
    ]
    cells = [
        text(60 + 130 * at, 600 - 14 * n, cell, font="F" if at == 2 else "C")
        for n, cells in enumerate(rows)
        for at, cell in enumerate(cells)
    ]
    code = [text(60, 500, "let x    = y in", font="C"), text(160, 500, "the sum", font="F")]
    found = row(tmp_path, pdf([*cells, *code])).text.split("\n")
    assert found[:3] == [f"| {' | '.join(row)} |" for row in rows]
    assert found[-1] == "let x    = y in the sum"


def test_a_heading_with_a_number_ends_a_table(tmp_path):
    """The gap after its number may be in the gap of the table."""
    rows = [("corn", "what is ground"), ("sack", "what holds flour"), ("dam", "what holds water")]
    cells = [text(60 + 60 * at, 600 - 14 * n, cell) for n, cells in enumerate(rows) for at, cell in enumerate(cells)]
    heading = [text(60, 540, "2.2", 14, "F2"), text(110, 540, "Of mills", 14, "F2")]
    lines, _ = column(60, 510, 6)
    assert "2.2 Of mills" in row(tmp_path, pdf([*cells, *heading, *lines])).text.split("\n")


def test_lines_between_cells_say_which_text_is_in_which_cell(tmp_path):
    """Cells of several lines are joined, also in the first column, and their hyphens go."""
    across = [f"70 {y} 400 0.5 re f".encode() for y in (650, 630, 590, 550)]
    down = [f"{x} 550 0.5 100 re f".encode() for x in (70, 220, 470)]
    cells = [
        *(text(75, 636, "Mill"), text(225, 636, "What it grinds")),
        *(
            text(75, 616, "The upper"),
            text(75, 602, "mill"),
            text(225, 616, "corn of the whole val-"),
            text(225, 602, "ley"),
        ),
        *(text(75, 576, "The lower mill"), text(225, 576, "bark")),
    ]
    found = row(tmp_path, pdf([*across, *down, *cells]))
    assert (
        found.text
        == "| Mill | What it grinds |\n| The upper mill | corn of the whole valley |\n| The lower mill | bark |"
    )
    assert [block["kind"] for block in found.more[1]] == ["table"]


def test_cells_in_a_code_font_end_at_the_lines_of_their_table(tmp_path):
    """Columns are as close as words, and a word is closer than a letter is wide."""
    across = [f"70 {y} 200 0.5 re f".encode() for y in (650, 630, 610)]
    down = [f"{x} 610 0.5 40 re f".encode() for x in (70, 138, 270)]
    cells = [text(74, 636, "grind_corn", 10, "C"), text(142, 636, "int", 10, "C"), text(163, 636, "count", 10, "C")]
    cells += [text(74, 616, "stop", 10, "C"), text(142, 616, "void", 10, "C")]
    assert row(tmp_path, pdf([*across, *down, *cells])).text == "| grind_corn | int count |\n| stop | void |"


def test_powers_and_indices_have_signs_and_other_small_digits_are_removed(tmp_path):
    script = "/F 10 Tf ({}) Tj /F 7 Tf {} Ts ({}) Tj 0 Ts /F 10 Tf ({}) Tj"
    parts = [
        ("There are 2", 4, "21", " grains, "),
        ("the sum of x", -2, "1", " and "),
        ("of the mill", 4, "7", " too."),
    ]
    line = f"BT 60 700 Td {' '.join(script.format(*part) for part in parts)} ET"
    assert row(tmp_path, pdf([line.encode()])).text == "There are 2^{21} grains, the sum of x_1 and of the mill too."


def test_a_negative_size_in_a_matrix_that_is_turned_around_is_upright_text(tmp_path):
    """Forms of some programs are written so."""
    lines = [*column(60, 700, 6)[0], b"BT /F -10 Tf -1 0 0 -1 60 600 Tm (The mill grinds corn.) Tj ET"]
    assert row(tmp_path, pdf(lines)).text.endswith("The mill grinds corn.")


def test_a_drop_cap_belongs_to_the_first_line_beside_it(tmp_path):
    beside = [
        text(85, 700, "he stones of the mill turn day and night, and"),
        text(85, 688, "grind the corn of the valley,"),
    ]
    page = [text(60, 688, "T", 30), *beside, text(60, 676, "and of other valleys.")]
    assert row(tmp_path, pdf(page)).text.startswith("The stones of the mill turn")


def test_a_line_in_hebrew_is_read_from_right_to_left():
    """Numbers, Latin words and marks keep their order; brackets are mirrored."""
    assert logical("(Mill 12) םולש בָּא") == "אבָּ שלום (Mill 12)"
    assert logical("The word םולש means peace.") == "The word שלום means peace."
    assert logical("The mill (12) grinds.") == "The mill (12) grinds."


def test_numbers_in_arabic_digits_are_read_from_left_to_right():
    """They are so on the page, also in a line of Arabic; dots between two numbers keep them apart."""
    assert logical("٢٠١ . . . باتك") == "كتاب . . . ٢٠١"
    assert logical("١٩ … natbib باتك") == "كتاب natbib … ١٩"


def test_a_heading_over_two_lines_and_the_text_below_a_number_stay_together(tmp_path):
    """A heading may be broken long before the edge, or below its text; the next heading has a number."""
    lines, words = column(60, 560, 6, width=60)
    heads = [
        text(60, 720, "How the stones", 16),
        text(60, 701, "of a mill are cut", 16),
        text(60, 672, "by A. Miller", 16),
        text(60, 640, "1.2", 14),
        text(100, 640, "How the wheel is built and the dam", 14),
        text(100, 623, "that drives it", 14),
        text(60, 600, "(a)"),
        text(90, 600, "a first step that is long enough to fill a whole line of text"),
        text(90, 588, "and another one."),
    ]
    found = row(tmp_path, pdf([*heads, *lines]))
    assert found.text.split("\n\n") == [
        "How the stones of a mill are cut",
        "by A. Miller",
        "1.2 How the wheel is built and the dam that drives it",
        "(a) a first step that is long enough to fill a whole line of text and another one.",
        words,
    ]


def test_chapters_without_dots_are_entries_of_a_table_of_contents(tmp_path):
    """Their numbers end where those of the other entries do."""
    rows = [("1", "Mills", 0, 3), ("1.1", "Stones", 40, 3), ("1.2", "Wheels", 40, 9), ("1.3", "Dams", 40, 12)]
    rows += [("2", "Corn", 0, 20), ("3", "Flour", 0, 31), ("3.1", "Bread", 40, 33)]
    page = []
    for n, (number, title, dots, at) in enumerate(rows):
        y = 700 - 14 * n
        page += [text(60, y, number), text(90, y, title + " ." * dots), text(400 - 5.56 * len(str(at)), y, str(at))]
    found = row(tmp_path, pdf(page))
    assert found.text.split("\n") == [f"{number} {title}" for number, title, _, _ in rows]


TITLES = [
    "The stones",
    "The wheels of a mill that turned in a valley with two rivers and is built of oak",
    "Dams",
    "Corn",
]


def contents_page(numbers, dots):
    """The titles, of which one takes two lines, with numbers at the right."""
    page = [text(60, 740, "Contents", 14)]
    for n, (title, at) in enumerate(zip(TITLES, numbers, strict=True)):
        y = 700 - 40 * n
        if len(title) > 40:
            page.append(text(60, y, f"{n + 1}  {title[:61]}"))
            y, title = y - 12, title[61:]
            page.append(text(72, y, title + " ." * dots))
        else:
            page.append(text(60, y, f"{n + 1}  {title}" + " ." * dots))
        page.append(text(400 - 5.56 * len(str(at)), y, str(at)))
    return page


@pytest.mark.parametrize("dots", [0, 9])
def test_entries_of_a_table_of_contents_lose_dots_and_page(tmp_path, dots):
    """Without dots, the titles must be on the pages with these numbers."""
    numbers = [2, 3, 5, 9]
    pages = [
        [text(60, 700, f"{numbers.index(n) + 1} {TITLES[numbers.index(n)]}", 16)] if n in numbers else []
        for n in range(10)
    ]
    for n in range(10):
        pages[n] += column(60, 640, 6, first=100 * n)[0]
    found = row(tmp_path, pdf(contents_page(numbers, dots), *pages[1:])).text
    assert found.startswith("Contents\n\n" + "\n".join(f"{n + 1} {title}" for n, title in enumerate(TITLES)) + "\n\n")
    other = row(tmp_path, pdf(contents_page([2, 30, 50, 900], 0), *pages[1:])).text
    assert "900" in other


def test_a_list_of_prices_keeps_its_numbers(tmp_path):
    """They are not in order, and neither are the goods."""
    goods = [("Wheat", 40), ("Oats", 12), ("Rye", 33), ("Barley", 7)]
    page = [text(60, 700 - 14 * n, f"{name} {'. ' * 9}{price}") for n, (name, price) in enumerate(goods)]
    assert row(tmp_path, pdf(page)).text.split("\n") == [f"{name} … {price}" for name, price in goods]


def test_an_index_loses_its_pages(tmp_path):
    words = [("barley", "40"), ("corn", "12, 31"), ("rye", "33"), ("wheat", "7")]
    page = [text(60, 700 - 14 * n, f"{word} {'. ' * 9}{at}") for n, (word, at) in enumerate(words)]
    assert row(tmp_path, pdf(page)).text.split("\n") == [word for word, _ in words]


def test_code_keeps_its_lines_and_its_indentation(tmp_path):
    code = ["def mill(corn):", "    for one in corn:", "        grind(one)", "    return flour"]
    operators = [text(80, 600 - 12 * n, line, font="C") for n, line in enumerate(code)]
    prose, words = column(80, 700, 4)
    assert row(tmp_path, pdf([*prose, *operators])).text == words + "\n\n" + "\n".join(code)


def test_code_in_a_font_for_text_keeps_its_lines(tmp_path):
    code = ["int mill(int corn) {", "  for (int i = 0; i < corn; i++) {", "    grind(stones[i]);", "  }", "}"]
    operators = [text(80, 600 - 12 * n, line) for n, line in enumerate(code)]
    prose, _ = column(60, 700, 6)
    found = row(tmp_path, pdf([*prose, *operators])).text.split("\n\n")
    assert [line.strip() for line in found[1].split("\n")] == [line.strip() for line in code]


def test_a_compound_of_three_words_keeps_the_hyphen_at_the_end_of_a_line(tmp_path):
    lines = ["The steps to the mill are steep, and the miller gave us a tour that was to-", "the-point and short."]
    found = row(tmp_path, pdf([text(60, 700 - 12 * n, line) for n, line in enumerate(lines)]))
    assert found.text.endswith("that was to-the-point and short.")


@pytest.mark.parametrize(
    ("first", "second", "others", "expected"),
    [
        ("URL-", "encoded", (), "URL-encoded"),
        ("kfreebsd-", "amd64", (), "kfreebsd-amd64"),
        ("log-proba-", "bility", ("probability",), "log-probability"),
        ("state-of-the-", "art", (), "state-of-the-art"),
        ("gran-", "ite", (), "granite"),
        ("F-", "score", (), "F-score"),
        ("S-", "tock", ("stock",), "Stock"),
    ],
)
def test_a_hyphen_that_no_hyphenation_writes_stays(first, second, others, expected):
    assert joined([first, second], Counter(others)) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ("low and ground-level", "low-level"),
        ("low, eye and ground-level, and eyelevel", "lowlevel"),
        ("low and level", "lowlevel"),
    ],
)
def test_a_compound_keeps_its_hyphen_if_the_document_has_others_with_its_last_part(others, expected):
    """But not if it also has words that have this part without a hyphen."""
    known = words_of([f"They are {others} mills.", "that is low-"])
    assert joined(["low-", "level"], known) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Figure 3: The mill", True),
        ("Table B.1: Its wheels", True),
        ("Table 2", True),
        ("Fig. 4 The upper wheel", True),
        ("Рис. 3. Мельница", True),
        ("图 2 水车", True),
        ("Example 5.1: A wheel", True),
        ("Figure 4.2 shows the wheel.", False),
        ("Table 1, which lists them,", False),
        ("Figure 3 (left) is the wheel.", False),
        ("Example 1: If the wheel turns", False),
        ("Figures 3 and 4", False),
    ],
)
def test_a_caption_has_a_label_with_a_number_that_begins_no_sentence(line, expected):
    assert kinds.is_caption(line) == expected


def test_invisible_text_of_an_ocr_engine_is_paragraphs_with_spaces(tmp_path):
    """Its font has one width. Each word is stretched with the space after it, and each line has another size."""
    lines = [
        "The stones of the upper mill turn day and night",
        "and grind the corn that the farmers of the whole",
        "valley",
    ]
    operators = []
    for n, words in enumerate(line.split() for line in lines):
        gap = (235 - 5 * len("".join(words))) / (len(words) - 1) if len(words) > 1 else 0
        at = 60.0
        for word in words:
            scale = 100 * 5 * len(word) / (len(word) + 1) / (0.6 * (9 + n))
            place = b"BT 3 Tr /C %d Tf %.2f Tz %.2f %d Td" % (9 + n, scale, at, 700 - 12 * n)
            operators.append(b"%s (%s ) Tj ET" % (place, word.encode()))
            at += 5 * len(word) + gap
    found = row(tmp_path, pdf(operators))
    assert found.text == " ".join(lines)
    assert [block["kind"] for block in found.more[1]] == ["text"]


@pytest.mark.parametrize(("sizes", "found"), [((160, 160, 160, 128), 128), ((160, 150, 168, 128), 155)])
def test_sizes_of_invisible_text_are_those_of_the_body_unless_most_are_the_same(sizes, found):
    """An engine that measures each line finds another size for it; one that chooses fonts knows footnotes."""
    line = "The stones of the mill."
    parts = [TextSegment(line, 0, 0, 0, 0, 0, size, len(line), 0, 0, 0, 0, 0, False, 0) for size in sizes]
    set_sizes(parts, is_stretched=False)
    assert parts[-1].size == found


def test_a_long_caption_is_one_and_bullets_of_slides_begin_items(tmp_path):
    prose, _ = column(60, 700, 6)
    _, words = column(60, 500, 5)
    lines = [f"Table 3: {words[:80]}", words[81:160], words[161:240], words[241:310]]
    caption = [text(60, 500 - 12 * n, line) for n, line in enumerate(lines)]
    assert "caption" in [one["kind"] for one in row(tmp_path, pdf([*prose, *caption])).more[1]]
    assert all(kinds.ITEM.match(f"{bullet} The wheel") for bullet in (*"•▶►➢✓❶−", "a."))


def test_the_model_of_kinds_is_one_of_these_features():
    """Each kind has an ensemble over as many columns as a line has features, and the file holds nothing else."""
    columns = kinds.features([TextLine([], 100, 10, text="The mill", glyphs=7)], 10)
    found = kinds.ensembles()
    assert {trees.columns for trees in found} == {len(columns)}
    assert trees_to_bytes(dict(zip(kinds.KINDS, found, strict=True)), {}) == kinds.MODEL.read_bytes()


def test_a_page_that_is_a_picture_needs_ocr(tmp_path):
    head = (
        b"<</Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1>>"
    )
    image = head + b" stream\n\x80\nendstream"
    data = pdf([b"q 600 0 0 800 0 0 cm /I Do Q"], resources="/XObject <</I 10 0 R>>", extra=[image])
    found = row(tmp_path, data)
    assert (found.drop, found.detail) == ("needs_ocr", "1 of 1 pages")
    assert found.more[0][0]["verdict"] == "needs_ocr"


def test_images_are_kept_of_the_pages_that_need_ocr_and_of_no_other():
    """They have the shape of the page, and a document that has some is not dropped."""
    data = scanned(pdf(PAGE, [text(72, 700, "Wheels turn.")]), 30)
    found = document.read_document(data, 10, False, True, lambda pages: None)
    assert (found["drop"], len(found["images"])) == (None, 2)
    assert all(struct.unpack(">II", png[16:24]) == (1250, 1667) for png in found["images"])
    assert "images" not in document.read_document(pdf(PAGE), 10, False, True, lambda pages: None)
    assert document.read_document(data, 10, False, False, lambda pages: None)["drop"] == "needs_ocr"


def pixels(png):
    """The shades of a page image, from 0 (black) to 15."""
    width, height = struct.unpack(">II", png[16:24])
    (size,) = struct.unpack(">I", png[33:37])
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(height, -1)[:, 1:]
    return np.stack((rows >> 4, rows & 15), 2).reshape(height, -1)[:, :width].astype(int)


def test_the_image_of_a_scanned_page_shows_the_page():
    """Upright, in full, and as sharp as the page itself would be."""
    data = pdf([text(72, 700, "The mill grinds corn.", 18), text(300, 90, "The wheel turns.", 24)])
    found = document.read_document(scanned(data), 10, False, True, lambda pages: None)
    scan, page = pixels(found["images"][0]), pixels(document.render_page(data, 0)["images"][0])
    assert (found["drop"], scan.shape) == (None, page.shape)
    assert np.count_nonzero(page < 8) > 1_000
    assert np.abs(scan - page).sum() < 0.25 * (15 - page).sum()
    assert np.abs(scan[::-1] - page).sum() > (15 - page).sum()


@pytest.mark.parametrize(("bold", "plain", "is_bold"), [(600, 100, False), (100, 600, True), (100, 20, True)])
def test_type_is_bold_only_where_most_of_a_page_is_not(bold, plain, is_bold):
    """On a page in bold, bold type does not tell headings from text. A page of few glyphs may be a title."""
    glyphs = np.zeros((bold + plain, GLYPH_COLUMNS), np.int32)
    glyphs[:bold, FONT] = 1
    kinds = np.array([0, FONT_HEAVY], np.int64)
    page._find_bold(glyphs, kinds)
    assert [bool(kind & FONT_BOLD) for kind in kinds] == [False, is_bold]


def test_page_images_beyond_the_limit_are_a_reason(monkeypatch):
    """The row has no images then, so its memory is bounded."""
    monkeypatch.setattr(document, "MOST_IMAGE_BYTES", 1 << 10)
    found = document.read_document(scanned(pdf(PAGE), 30), 10, False, True, lambda pages: None)
    assert (found["drop"], found.get("images")) == ("too_large", None)


@pytest.mark.parametrize(("shift", "drop"), [(0, None), (29, "garbled")])
def test_a_page_whose_font_does_not_tell_its_characters_is_garbled_unless_its_codes_are_text(tmp_path, shift, drop):
    names = " ".join(f"/g{code}" for code in range(33, 127))
    words = "the miller and the people of the valley grind their corn " * 2
    codes = "".join(char if char == " " else chr(ord(char) - shift) for char in words)
    data = pdf([text(60, 700, codes)], font_entries=f"/Encoding <</Type /Encoding /Differences [33 {names}]>>")
    found = row(tmp_path, data)
    assert found.drop == drop
    assert (found.more[0][0]["confidence"] < 0.5) == (drop is not None)


PROSE = {
    "en": "The stones of the mill turn day and night, and grind the corn of the whole valley to flour. In autumn the "
    "river is high, and the wheel turns fast; the miller sells what he does not need to the bakers of the town.",
    "fi": "Myllyn kivet pyörivät yötä päivää ja jauhavat koko laakson viljan jauhoiksi. Syksyllä joki on korkealla, ja "
    "vesiratas pyörii nopeasti; mylläri myy sen, mitä hän ei tarvitse, kaupungin leipureille.",
    "vi": "Những tảng đá của cối xay quay suốt ngày đêm và nghiền ngô của cả thung lũng thành bột. Vào mùa thu nước "
    "sông dâng cao và bánh xe quay nhanh hơn, người thợ xay bán phần không cần cho các thợ làm bánh trong thị trấn.",
    "ru": "Жернова мельницы крутятся день и ночь и перемалывают зерно всей долины в муку. Осенью река поднимается, и "
    "колесо вращается быстро; мельник продаёт то, что ему не нужно, пекарям города.",
    "el": "Οι πέτρες του μύλου γυρίζουν μέρα και νύχτα και αλέθουν το καλαμπόκι όλης της κοιλάδας. Το φθινόπωρο το "
    "ποτάμι είναι ψηλό και ο τροχός γυρίζει γρήγορα· ο μυλωνάς πουλάει ό,τι δεν χρειάζεται στους φούρνους της πόλης.",
    "ar": "تدور أحجار المطحنة ليلا ونهارا وتطحن ذرة الوادي كله إلى دقيق. في الخريف يكون النهر مرتفعا وتدور العجلة "
    "بسرعة",
    "ja": "水車の石は昼も夜も回り、谷全体の穀物を粉に挽く。秋には川の水位が高く、車輪は速く回る。",
    "code": "def grind(corn: list[int], speed=24) -> dict[str, float]:\n    for sack in corn:\n        flour[sack.name]"
    " = max(sack.weight * 0.97 - waste(sack), 0)\n    return {key: value for key, value in flour.items() if value > 0}",
    "maths": "Let f(x, y) = x2 + 2xy - y2 for x in R. Then df/dx = 2x + 2y, and f has no minimum: f(0, t) = -t2 < 0.",
    "table": "mill | 4 | 310 | 24.5\nbakery | 12 | 75 | 3.1\nsawmill | 7 | 118 | 0.2\nKG | 2019 | 2020 | 2021",
}


def page_of(text):
    lines = [SimpleNamespace(text=line) for line in text.splitlines()]
    return SimpleNamespace(
        fault=None, glyphs=len(text), image_share=0, bad_glyphs=0, unmapped=0, unmapped_text="",
        blocks=[SimpleNamespace(kind="text", lines=lines)],
    )  # fmt: skip


@pytest.mark.parametrize("name", PROSE)
def test_text_of_any_kind_can_be_trusted(name):
    """Prose in seven languages, code, maths and tables."""
    confidence, verdict = confidence_of(page_of(PROSE[name]))
    assert (confidence > 0.8, verdict) == (True, None)


def test_units_in_a_table_of_another_script_do_not_condemn_it():
    """They are short, and among digits, but few of its signs."""
    table = "\n".join(f"{n}0{n} 蒙牛桶装原味酸牛奶散称华联粉条 {n}00g*4" for n in range(60))
    assert confidence_of(page_of(table))[1] is None


@pytest.mark.parametrize(
    "broken",
    [
        PROSE["en"].translate(str.maketrans(string.ascii_lowercase, "qxwjzkvbpygfmdcouthnaerils")),
        "".join(chr(33 + (ord(char) * 37) % 94) if char > " " else char for char in PROSE["en"]),
        PROSE["en"].replace(" ", ""),
        PROSE["vi"].replace(" ", ""),
        PROSE["ru"].replace(" ", ""),
        PROSE["ru"].encode("cp1251", "replace").decode("latin-1"),
    ],
    ids=("other letters", "other characters", "no spaces", "no spaces, accents", "no spaces, Cyrillic", "mojibake"),
)
def test_text_that_lost_its_characters_or_spaces_is_garbled(broken):
    """Whatever the fonts say."""
    assert confidence_of(page_of(broken))[1] == "garbled"


def test_words_without_spaces_are_garbled(tmp_path):
    words = " ".join("themillerandthepeopleofthevalley" for _ in range(30))
    lines = [text(60, 700 - 12 * n, words[80 * n : 80 * n + 80].strip()) for n in range(12)]
    assert row(tmp_path, pdf(lines)).drop == "garbled"


def test_a_footnote_follows_the_paragraph_that_has_its_mark(tmp_path):
    mark = [b"BT /F 10 Tf 60 676 Td (The stones are of granite.) Tj /F 6 Tf 4 Ts (1) Tj 0 Ts ET"]
    note = [text(60, 64, "1", 5), text(64, 60, "From the quarry of the upper valley.", 8)]
    before, one = column(60, 700, 2, width=60)
    after, two = column(60, 640, 6, width=60, first=300)
    found = row(tmp_path, pdf([*before, *mark, *after, *note])).text
    assert found.index(one) < found.index("granite.[1]") < found.index("[1] From the quarry") < found.index(two)


def test_a_small_line_that_begins_with_a_digit_and_a_raised_digit_without_a_note_are_no_pair(tmp_path):
    """The file was lost, since the place of the mark was unknown."""
    mark = b"BT /F 10 Tf 60 600 Td (The stones of the mill are of granite.) Tj /F 6 Tf 4 Ts (1) Tj 0 Ts ET"
    assert row(tmp_path, pdf([mark, text(60, 60, "1Stone from the quarry.", 7)])).drop is None


def test_a_digit_on_the_line_is_no_mark_and_a_mark_may_begin_a_line(tmp_path):
    """The number stays whole, although the footnote has its last digit."""
    lines = [
        text(60, 700, "The stone of the upper mill weighs less than most others do in this"),
        b"BT /F 6 Tf 4 Ts 60 688 Td (5) Tj 0 Ts /F 10 Tf ( valley, and its wheel is 6.5 feet wide. It turns.) Tj ET",
    ]
    note = b"BT /F 5 Tf 3 Ts 60 60 Td (5) Tj 0 Ts /F 8 Tf (That of our neighbour.) Tj ET"
    found = row(tmp_path, pdf([*lines, note])).text
    assert found == (
        "The stone of the upper mill weighs less than most others do in this [5] valley, and its wheel is 6.5 feet "
        "wide. It turns.\n\n[5] That of our neighbour."
    )


@pytest.mark.parametrize("has_line", [True, False])
def test_footnotes_as_large_as_the_text_are_below_a_short_line(tmp_path, has_line):
    lines = [
        b"BT /F 10 Tf 60 700 Td (The stones are of granite.) Tj /F 6 Tf 4 Ts (1) Tj 0 Ts ET",
        text(60, 660, "ii. The wheel turns."),
        b"BT /F 6 Tf 4 Ts 60 60 Td (1) Tj 0 Ts /F 10 Tf ( From a quarry.) Tj ET",
        *([b"60 76 m 180 76 l S"] if has_line else []),
    ]
    found = row(tmp_path, pdf(lines)).text
    assert ("granite.[1]\n\n[1] From a quarry.\n\nii. The" in found) is has_line


@pytest.mark.parametrize(("step", "size", "is_kept"), [(1, 5, False), (5, 5, False), (1, 10, False), (1, 10, True)])
def test_numbers_of_lines_in_the_margin_are_left_out(tmp_path, step, size, is_kept):
    """A column with a head is the first of a table."""
    lines, whole = column(60, 700, 30)
    numbers = [text(40, 700 - 12 * n, str(n + 1), size) for n in range(step - 1, 30, step)]
    found = row(tmp_path, pdf([*numbers, *lines, *([text(40, 712, "No.")] if is_kept else [])])).text
    assert (found.split() == whole.split()) is not is_kept
    assert ("30" in found.replace("|", " ").split()) is is_kept


def test_accents_that_are_drawn_apart_join_their_letters(tmp_path):
    """Also if the accent is as wide as its letter. A circle around a c is the sign of copyright."""
    accents = "/FirstChar 32 /LastChar 255 /Widths [" + "500 " * 224 + "] /Encoding /WinAnsiEncoding"
    letters = b"BT /F 10 Tf 60 700 Td (Documenta) Tj (\270) Tj -5 0 Td ET"
    at = 60 + 9 * 5
    more = b"BT /F 10 Tf %d 700 Td (c) Tj ET BT /F 10 Tf %d 700 Td (\230) Tj ET BT /F 10 Tf %d 700 Td (ao) Tj ET"
    data = pdf([letters, more % (at, at + 5, at + 5)], font_entries=accents)
    assert row(tmp_path, data).text == "Documentação"
    boxes = [[0x25EF, 0, 0, 160, 160, 0, 160, 160, 0, 0, 0], [ord("c"), 40, 0, 120, 160, 40, 160, 140, 0, 0, 0]]
    codes, segments = np.zeros(200, np.int32), np.zeros((2, SEGMENT_COLUMNS), np.int64)
    join_glyphs(np.array(boxes, np.int32), 2, np.array([FONT_MATH]), ACCENTS, codes, segments)
    assert chr(codes[0]) == "©"


def test_accents_that_are_drawn_after_their_line_join_their_letters(tmp_path):
    """TeX raises them over capitals. A letter has no dot under an accent. A sign with its own place stays."""
    accents = "/FirstChar 32 /LastChar 255 /Widths [" + "500 " * 224 + "] "
    accents += "/Encoding <</BaseEncoding /WinAnsiEncoding /Differences [130 /caron 200 /dotlessi]>>"
    words = b"BT /F 10 Tf 60 700 Td (Ceky jav\310tas ~a) Tj ET"
    drawn = [(60, 702.3, b"\202"), (110, 700, b"\264"), (100, 700, b"\264")]
    later = [b"BT /F 10 Tf %d %.1f Td (%s) Tj ET" % one for one in drawn]
    found = row(tmp_path, pdf([words, *later], font_entries=accents)).text
    assert found == "Čeky javítás ~a"


@pytest.mark.parametrize(
    ("font", "codes", "signs"),
    [
        ("CMMI10", b"\017 \\013", "ϵ α"),
        ("CMSY10", b"\034 \035", "≪ ≫"),
        ("MSBM10", b"\006 \003", "⊀ ≱"),
        ("CMR10", b"\013 \014", "ff fi"),
        ("Symbol1", b"\013 x", "x"),
    ],
)
def test_codes_of_fonts_that_tell_no_characters_are_those_of_tex(tmp_path, font, codes, signs):
    """The codes of ligatures in text are other signs in the fonts for formulas."""
    operators = b"BT /C 10 Tf 72 600 Td (%s) Tj ET" % codes
    data = pdf([*PAGE, operators]).replace(b"/BaseFont /Courier ", b"/BaseFont /%s" % font.encode().ljust(8))
    assert row(tmp_path, data).text.split("\n\n")[-1] == signs


def test_underscores_that_are_drawn_as_lines_are_in_their_words(tmp_path):
    """They are on the base line; the line under a word and a line of a form do not."""
    widths = "/FirstChar 32 /LastChar 255 /Widths [" + "500 " * 224 + "] /Encoding /WinAnsiEncoding"
    names = [
        text(72, 600, "The"),
        text(92, 600, "dbg"),
        text(111, 600, "up"),
        text(126, 600, "and"),
        text(146, 600, "int"),
    ]
    lines = [b"107.3 600 3.2 0.4 re f", b"161.3 600 3.2 0.4 re f", b"72 598.5 14 0.4 re f", b"126 598 40 0.4 re f"]
    assert row(tmp_path, pdf([*names, *lines], font_entries=widths)).text == "The dbg_up and int_"


def test_old_style_digits_are_digits_and_a_stroke_crosses_out_the_sign_after_it():
    glyphs = np.zeros((3, GLYPH_COLUMNS), np.int32)
    glyphs[:, CODE] = [0xF731, 0xF739, 0xF761]
    set_signs(glyphs, ["minion"], np.zeros(1, np.int64))
    assert "".join(map(chr, glyphs[:, CODE])) == "19a"
    assert joined(["i \u0338= j, x \u0338 ∈ A"], Counter()) == "i ≠ j, x ∉ A"


def test_signs_of_other_fonts_before_items_are_bullets(tmp_path):
    """Wingdings has them at the places of letters; a ligature alone is the code of an unknown sign."""
    glyphs = np.zeros((4, GLYPH_COLUMNS), np.int32)
    glyphs[:, CODE] = [ord("l"), 0xF0D8, 0x25AA, ord("l")]
    glyphs[3, FONT] = 1
    set_signs(glyphs, ["wingdings-regular", "times"], np.zeros(2, np.int64))
    assert "".join(map(chr, glyphs[:, CODE])) == "●➢▪l"
    items = [
        b"BT /C 10 Tf 72 %d Td (\017 ) Tj ET " % (600 - 14 * n) + text(84, 600 - 14 * n, "The mill.") for n in range(2)
    ]
    data = pdf(items).replace(b"/BaseFont /Courier ", b"/BaseFont /WASY10  ")
    assert row(tmp_path, data).text == "• The mill.\n• The mill."


def test_the_mark_of_a_footnote_may_be_much_higher_than_its_line(tmp_path):
    note = [text(60, 64.5, "1", 6.4), text(66, 61, "From the quarry of the upper valley.", 8)]
    before, _ = column(60, 700, 8, width=60)
    found = row(tmp_path, pdf([*before, *note]))
    assert found.text.endswith("[1] From the quarry of the upper valley.")
    assert found.more[1][-1]["kind"] == "note"


@pytest.mark.parametrize(("words", "mark"), [("1In the valley", "1"), ("1R15GM078077 from", None), ("7C0", None)])
def test_a_code_that_begins_with_a_digit_is_no_mark_of_a_footnote(words, mark):
    assert note_mark(TextLine([], 0, 80, text=words), 100) == mark


def test_what_has_text_below_it_is_no_footnote(tmp_path):
    before, _ = column(60, 700, 6, width=60)
    items = [
        one for n in range(3) for one in (text(60, 604 - 14 * n, f"{n + 1}", 5), text(64, 600 - 14 * n, "Stone", 8))
    ]
    after, _ = column(60, 540, 6, width=60, first=300)
    assert "note" not in [one["kind"] for one in row(tmp_path, pdf([*before, *items, *after])).more[1]]


@pytest.mark.parametrize("head", [False, True])
def test_a_list_of_terms_with_long_definitions_is_text_unless_it_has_a_head(tmp_path, head):
    prose = [
        text(60, 700 - 12 * n, "the miller of the upper valley grinds the corn of all farmers of it") for n in range(6)
    ]
    lines = [
        *([("Part", "Purpose")] if head else []),
        ("wheel", "turns in the water of the brook that comes from there,"),
        ("", "day and night."),
        ("stone", "grinds."),
    ]
    cells = [(60 + 80 * at, 580 - 12 * n, one) for n, row in enumerate(lines) for at, one in enumerate(row) if one]
    found = row(tmp_path, pdf([*prose, *(text(*cell) for cell in cells)])).text
    assert ("| wheel | turns" in found) == head
    assert head or found.endswith("from there, day and night.\n\nstone grinds.")


def test_the_work_of_a_file_is_bounded_by_counts_and_not_by_time(monkeypatch):
    """Characters, objects and pages are counted, so the verdict is the same on every machine."""
    data = pdf(*[column(60, 700, 6)[0]] * 4)
    monkeypatch.setattr(document, "WORK_PER_BYTE", 0)
    read = partial(document.read_document, data, 10, False, False, lambda pages: None)
    work = sum(one.work for one in pages_of(data))
    assert work > 4 * 100
    monkeypatch.setattr(document, "WORK", 4 * document.WORK_PER_PAGE + work)
    assert read()["drop"] is None
    monkeypatch.setattr(document, "WORK", document.WORK - 1)
    found = read()
    assert (found["drop"], found["detail"]) == (
        "too_large",
        f"the first 4 pages of 4 take more than {document.WORK:,} steps",
    )


def pages_of(data):
    with PdfDocument(data) as opened:
        return [document._page(opened, page.PageReader(), number, 1 << 30) for number in range(len(opened))]


CHEAP_CHILD = """
import os, signal, sys
from types import ModuleType
from gristmill_pdf.layout import child
def read(data, *rest):
    if os.path.exists("killed"):
        os.remove("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    word, _, name = data.partition(b" ")
    if word == b"crash" or word == b"once" and not os.path.exists("attempts"):
        open("attempts", "a").write(".")
        if name == b"memory":
            raise MemoryError
        os.kill(os.getpid(), getattr(signal, name.decode()))
    return {"text": child.CONTROL_TEXT if data == child.CONTROL else data.decode()}
sys.modules["gristmill_pdf.layout.document"] = document = ModuleType("document")
document.read_document, document.render_page = read, None
child.main()
"""


@pytest.fixture
def cheap_child(tmp_path, monkeypatch):
    """A child whose reader answers with the file, or ends as the file says: pdfium and the kernels take 2 s to load."""
    (tmp_path / "cheap_child.py").write_text(CHEAP_CHILD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(child, "COMMAND", ("cheap_child.py",))
    process = PdfChild()
    yield process
    process.close()


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("SIGSEGV", "it crashes the parser (SIGSEGV)"),
        ("SIGXCPU", "it takes too much processor time (SIGXCPU)"),
        ("SIGABRT", "it takes more than 1,024 MiB of memory (SIGABRT)"),
        ("memory", "it takes more than 1,024 MiB of memory (exit code 12)"),
    ],
)
def test_a_file_that_ends_two_readers_is_a_row_with_the_evidence_and_the_next_file_is_read(
    tmp_path, cheap_child, end, cause
):
    """Each cause is in the detail, and none is a verdict before it repeats next to a control."""
    found = cheap_child.read(f"crash {end}".encode(), 10, False)
    assert (found["drop"], found["detail"]) == ("pdf_crashed", f"{cause}, twice; a control file was read")
    assert len((tmp_path / "attempts").read_text()) == 2
    assert cheap_child.read(b"The mill grinds corn.", 10, False)["text"] == "The mill grinds corn."


def test_a_file_that_ends_one_reader_is_read_by_the_next(tmp_path, cheap_child):
    """One fault, here too little processor time, is no verdict."""
    assert cheap_child.read(b"once SIGXCPU", 10, False)["text"] == "once SIGXCPU"
    assert len((tmp_path / "attempts").read_text()) == 1


@pytest.mark.parametrize("pages", [1, 10_000])
def test_the_processor_time_of_a_file_is_bounded_by_its_bytes(pages):
    """A hundred kilobytes may have 10,000 pages that share one object."""
    assert child.CONTROLS <= child.allowed_controls(100_000, pages) <= 2 * child.CONTROLS
    assert child.allowed_controls(50 << 20, pages) == child.CONTROLS + pages * child.CONTROLS_PER_PAGE


def test_a_slower_processor_has_more_time_for_a_file(monkeypatch):
    """The time is a multiple of what a control takes in the same process."""
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit[0]))
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    for control_s in (0.001, 0.008):
        child._allow(control_s, 100_000, 1)
    assert limits[1] / limits[0] == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
def test_a_reader_that_was_killed_from_outside_is_no_verdict_about_the_file(tmp_path, cheap_child, end):
    assert cheap_child.read(b"The mill", 10, False)["text"] == "The mill"
    os.kill(cheap_child.pid, getattr(signal, end))
    assert cheap_child.read(b"The mill grinds corn.", 10, False)["text"] == "The mill grinds corn."
    with pytest.raises(UserError, match="was killed 3 times in a row, perhaps because memory is short"):
        cheap_child.read(f"crash {end}".encode(), 10, False)
    assert len((tmp_path / "attempts").read_text()) == 3


def test_a_reader_that_is_killed_while_it_starts_is_replaced(tmp_path, cheap_child):
    (tmp_path / "killed").touch()
    assert cheap_child.read(b"The mill", 10, False)["text"] == "The mill"
    assert not (tmp_path / "killed").exists()


def test_a_reader_that_cannot_read_its_control_file_says_why(tmp_path, cheap_child):
    (tmp_path / "cheap_child.py").write_text("raise MemoryError")
    with pytest.raises(UserError, match=r"cannot read its control file: it crashes the parser \(exit code 1\)"):
        cheap_child.read(b"The mill", 10, False)
