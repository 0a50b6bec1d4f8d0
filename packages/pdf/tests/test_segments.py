"""The kernel that joins glyphs, against the same rules run by Python."""

import numpy as np
import pytest

from gristmill_pdf.kernels.accents import place_accents
from gristmill_pdf.kernels.glyphs import BASE_X, BOTTOM, CODE, FLAGS, FONT, GLYPH_COLUMNS, LEFT, RIGHT, SIZE, TOP, TURN
from gristmill_pdf.kernels.glyphs import BASE_Y as BASE
from gristmill_pdf.kernels.segments import ACCENTS, S_LEFT, S_START, S_STOP, SEGMENT_COLUMNS, join_glyphs

KINDS = np.array([0, 1, 2, 8, 24], np.int64)


def page(seed, count=300):
    """Glyphs at random steps: letters, digits, spaces, accents, surrogates, other sizes, fonts, lines and turns."""
    draw = np.random.default_rng(seed)
    glyphs = np.zeros((count, GLYPH_COLUMNS), np.int32)
    x = y = 0
    for row in glyphs:
        size = int(draw.choice([160, 160, 160, 100, 400]))
        kind = draw.integers(20)
        x, y = (0, y + 190) if kind == 0 else (x + int(draw.choice([0, 0, 0, 25, 60, 300, -90])), y)
        codes = [
            97,
            101,
            49,
            54,
            61,
            69,
            84,
            80,
            104,
            0xF8EF,
            32,
            0xB4,
            0x2C6,
            45,
            2,
            0xD835,
            0xDC00,
            0x4E2D,
            0x644,
            0x5D0,
            40,
            102,
        ]
        row[CODE] = draw.choice(codes)
        row[LEFT], row[RIGHT], row[BASE_X] = x, x + size // 2, x + draw.integers(20)
        row[TOP], row[BOTTOM], row[BASE] = y - size, y + size // 4, y - (60 if kind == 1 else -40 if kind == 3 else 0)
        row[SIZE], row[FONT] = size, draw.integers(len(KINDS))
        row[FLAGS], row[TURN] = draw.integers(4), 4 if kind == 2 else 0
        x += size // 2
    return glyphs


def joined(join, glyphs, room):
    text, segments = np.zeros(room, np.int32), np.zeros((len(glyphs), SEGMENT_COLUMNS), np.int64)
    many = join(glyphs, len(glyphs), KINDS, ACCENTS, text, segments)
    return many, segments[: max(many, 0)].tolist(), text.tolist() if many >= 0 else []


@pytest.mark.parametrize("seed", range(8))
def test_compiled_and_plain_python_join_the_same(seed):
    """Segments cover the text without gaps, and are the same when Python runs the rules."""
    glyphs = page(seed)
    found = joined(join_glyphs, glyphs, 20_000)
    assert found == joined(join_glyphs.py_func, glyphs, 20_000)
    edges = [(row[S_START], row[S_STOP]) for row in found[1]]
    assert found[0] > 5
    assert [stop for _, stop in edges[:-1]] == [start for start, _ in edges[1:]]


@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_plain_python_place_accents_the_same(seed):
    """No glyph is lost, and each accent has a place."""
    glyphs = page(seed)
    compiled, plain = glyphs.copy(), glyphs.copy()
    place_accents(compiled, len(compiled))
    place_accents.py_func(plain, len(plain))
    assert (compiled == plain).all()
    assert sorted(compiled[:, CODE]) == sorted(glyphs[:, CODE])


def test_a_text_that_is_too_long_for_the_memory_is_refused():
    """The kernel writes nothing behind the array."""
    assert joined(join_glyphs, page(1), 10)[0] == -1


def test_letters_from_right_to_left_are_written_as_they_are_on_the_page():
    """Narrow and overlapping letters, the letters of a ligature, and brackets, which pdfium turns around."""
    glyphs = np.zeros((5, GLYPH_COLUMNS), np.int32)
    for row, (code, left) in zip(glyphs, (("(", 400), ("ط", 340), ("ا", 310), ("ل", 260), ("ا", 260)), strict=True):
        row[CODE], row[LEFT], row[RIGHT], row[SIZE], row[BOTTOM] = ord(code), left, left + 70, 160, 40
    _, segments, text = joined(join_glyphs, glyphs, 20_000)
    words = ["".join(map(chr, text[row[S_START] : row[S_STOP]])) for row in segments]
    assert sorted(zip((row[S_LEFT] for row in segments), words, strict=True)) == [
        (260, "ال"),
        (310, "ا"),
        (340, "ط"),
        (400, ")"),
    ]


@pytest.mark.parametrize(("origin", "text"), [(505, "aaf"), (520, "aa f")])
def test_a_gap_ends_at_the_origin_of_a_glyph_that_leans_to_the_left(origin, text):
    """The left edge of an italic f is near the word before it; its origin shows the space."""
    glyphs = np.zeros((3, GLYPH_COLUMNS), np.int32)
    for row, (code, left, start) in zip(glyphs, [(97, 300, 300), (97, 400, 400), (102, 505, origin)], strict=True):
        row[CODE], row[LEFT], row[BASE_X], row[RIGHT], row[SIZE] = code, left, start, left + 100, 160
    _, (segment,), codes = joined(join_glyphs, glyphs, 20)
    assert "".join(map(chr, codes[: segment[S_STOP]])) == text


@pytest.mark.parametrize(
    ("boxes", "text"),
    [
        ([("o", 0, 0, 75), ("f", 75, 75, 132), ("a", 147, 147, 220)], "of a"),
        ([("o", 0, 0, 75), ("f", 75, 75, 132), ("a", 120, 120, 190)], "ofa"),
        ([("f", 0, 0, 57), ("(", 72, 72, 100)], "f("),
        ([("e", 0, 0, 70), ("f", 90, 75, 160)], "e f"),
        ([("e", 0, 0, 70), ("f", 70, 55, 140)], "ef"),
    ],
)
def test_the_ink_of_an_f_does_not_hide_the_space_beside_it(boxes, text):
    """It is wider than the letter, on both sides if it is slanted. A box is (letter, origin, left, right)."""
    glyphs = np.zeros((len(boxes), GLYPH_COLUMNS), np.int32)
    for row, (letter, origin, left, right) in zip(glyphs, boxes, strict=True):
        row[CODE], row[BASE_X], row[LEFT], row[RIGHT], row[SIZE] = ord(letter), origin, left, right, 160
        row[TOP], row[BOTTOM] = -100, 20
    _, [segment], codes = joined(join_glyphs, glyphs, 100)
    assert "".join(map(chr, codes[segment[S_START] : segment[S_STOP]])) == text
