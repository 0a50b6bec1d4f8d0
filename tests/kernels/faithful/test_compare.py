"""The comparison of a text with its parent, against a slow one in plain Python."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernels.faithful import oracle

from gristmill.kernels.faithful.compare import compare
from gristmill.kernels.faithful.findings import CHECKS, COLUMNS
from gristmill.kernels.text.unicode_classes import unicode_tables
from gristmill.stages.buffers import views_of
from gristmill_generate.faithful_words import lexicon

PIECES = st.sampled_from(
    [
        *[
            "0",
            "1",
            "3",
            "12",
            "31",
            "99",
            "2021",
            "1999",
            "3,000",
            "3000",
            "1.5",
            "1,5",
            "1.234",
            "1.234.567",
            "1,234.5",
            "1'000",
            "1\xa0000",
            "4.5.2021",
            "1.2.3",
            "007",
            "5k",
            "3rd",
        ],
        *["three", "twenty-one", "hundred", "thousand", "million", "and", "of", "second", "first", "one", "ten"],
        *[
            "km",
            "miles",
            "kilometres",
            "%",
            "percent",
            "$",
            "€",
            "°",
            "C",
            "degrees",
            "Celsius",
            "century",
            "third",
            "5-km",
            "(km)",
            "am",
            "p.m.",
            "m",
            "GB",
            "USD",
        ],
        *[
            "May",
            "March",
            "Mar.",
            "Sept",
            "Monday",
            "Mon",
            "January",
            "mai",
            "2021-05-04",
            "05/04/2021",
            "13/4/21",
            "10:30",
            "5:21:02",
            "st",
            "th",
        ],
        *[
            "John",
            "Smith",
            "UN",
            "United",
            "Nations",
            "The",
            "the",
            "GitHub",
            "Zürich",
            "Über",
            "B737",
            "O’Brien",
            "O'Brien's",
            "python3",
            "Straße",
        ],
        *[
            "not",
            "never",
            "no",
            "without",
            "more",
            "less",
            "faster",
            "slower",
            "always",
            "support",
            "supports",
            "server",
            "TLS",
        ],
        *["http://www.example.org/a", "https://example.org/b.", "www.x.org/", "www.", "ftp://"],
        *[
            "`",
            "```",
            "$$",
            "\\(",
            "\\)",
            "\\[",
            "\\]",
            '"',
            "“",
            "”",
            "„",
            "«",
            "»",
            "「",
            "」",
            "[",
            "…",
            "...",
            "(",
            ")",
            "-",
            "/",
            ":",
            ";",
            ",",
            ".",
            "!",
            "?",
            "•",
        ],
        *["der", "die", "und", "in", "den", "von", "das", "ein", "mit", "le", "les", "des", "et", "est", "dans"],
        *["水", "車", "の", "ไทย", "данные", "x"],
        "x" * 70,
    ]
)
JOINTS = st.sampled_from(["", " ", " ", " ", "\n", "\n\n", "\u00a0"])
TEXTS = st.lists(st.tuples(PIECES, JOINTS), max_size=40).map(lambda found: "".join(a + b for a, b in found))


def compared(pairs):
    """The kernel's counts and spans of (text, parent) pairs."""
    text, parent = (pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1))
    offsets, data, valid = views_of(text)
    parent_offsets, parent_data, _ = views_of(parent)
    counts, spans = compare(offsets, data, parent_offsets, parent_data, valid, unicode_tables(), lexicon())
    found = [
        (counts[row].tolist(), sorted(map(tuple, spans[spans[:, 0] == row][:, 1:].tolist())))
        for row in range(len(pairs))
    ]
    return [(row, [(int(a), int(b), int(c)) for a, b, c in some]) for row, some in found]


@given(TEXTS, TEXTS)
@example("It cost 3 thousand dollars on 4 May 2021.", "On 05/04/2021 it cost $3,000.")
@example("“one two three four” `a(b, c)` $x+y$ " * 9, '"one two [x] three four" a(b,c) x - y')
def test_compare_is_the_plain_one(text, parent):
    """Counts and spans are those of the plain comparison, for any two texts and for a text with itself, also if several
    texts in a row have the same parent, which is read once.
    """
    pairs = [(text, parent), (parent, text), (text, text), (text + " " + parent, parent), (parent, parent)]
    for (one, other), found in zip(pairs, compared(pairs), strict=True):
        counts, spans = oracle.compare(one, other)
        assert dict(zip(COLUMNS, found[0], strict=True)) == dict(zip(COLUMNS, counts, strict=True)), (one, other)
        assert found[1] == spans


def test_a_row_without_a_text_ends_the_rows_of_a_parent():
    said = "The mill of Anna Richter grinds 40 tons."
    rows = compared([(said, said), (None, said), ("The mill of Bob grinds 50 tons.", said), ("It grinds.", said)])
    alone = [compared([("The mill of Bob grinds 50 tons.", said)])[0], compared([("It grinds.", said)])[0]]
    assert rows[1] == ([0] * len(COLUMNS), [])
    assert rows[2:] == alone


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_characters_are_compared_the_same(text, parent):
    """The plain comparison and the kernel agree on texts of any characters."""
    found = compared([(text, parent)])[0]
    counts, spans = oracle.compare(text, parent)
    assert found == (counts, spans)


def new_in(text, parent):
    counts, _ = compared([(text, parent)])[0]
    return {name: count for name, count in zip(COLUMNS, counts, strict=True) if name in CHECKS and count}


@pytest.mark.parametrize(
    ("text", "parent"),
    [
        ("It cost 3 thousand dollars.", "It cost $3,000."),
        ("It cost three thousand dollars.", "It cost USD 3000."),
        ("It has 1.5k stars.", "It has 1,500 stars."),
        ("Es kostet 1.500 Euro.", "Es kostet 1500 €."),
        ("It is 5 km away.", "It is 5 kilometres away."),
        ("It boils at 100 degrees Celsius.", "It boils at 100 °C."),
        ("In the nineteenth century", "In the 19th century"),
        ("A share of 5 percent", "A share of 5%"),
        ("Distance: 5 km", "Distance (km): 5"),
        ("On May 4, 2021 it began.", "It began on 4 May 2021."),
        ("It began on 2021-05-04.", "It began on 05/04/2021."),
        ("It began on the 4th of May.", "It began on May 4."),
        ("Es begann am 4. Mai 2021.", "Es begann am 4.5.2021."),
        ("It began on May 4, 2021.", "In 2021, on May 4, it began."),
        ("The shop opens at 3 p.m.", "The shop opens at 15:00."),
        ("The UN voted.", "The United Nations voted."),
        ("See https://example.org/a.", "See http://www.example.org/a"),
        ('He said: "we will win the war"', "He said “we will win the war”"),
        ("He said “it would cost you $92 thousand at 5 percent”", "He said “it would cost you $92,000 at 5%”"),
        ("Call `mill(x, y)` now", "Call mill(x, y) now"),
        ("The server doesn't support TLS.", "The server does not support TLS."),
        ("However, it rains.", "It rains, however."),
    ],
)
def test_another_spelling_is_not_new(text, parent):
    """Formats of numbers, dates, units, names, addresses, quotes and code do not matter."""
    assert new_in(text, parent) == {}


@pytest.mark.parametrize(
    ("check", "text", "parent"),
    [
        ("new_numbers", "It has 1,501 stars.", "It has 1,500 stars."),
        (
            "new_numbers",
            "Mill 3 has wings. The old river needs seven bridges: 3 bridges",
            "Mill 3 has wings. The old river needs seven bridges: 4 bridges",
        ),
        ("new_numbers", "The train leaves at 10:31.", "The train leaves at 10:30."),
        ("new_numbers", "The B738 landed.", "The B737 landed."),
        ("new_dates", "On May 5, 2021 it began.", "It began on 4 May 2021."),
        ("new_dates", "It began on Monday.", "It began on Tuesday."),
        ("new_units", "It is 5 miles away.", "It is 5 km away."),
        ("new_names", "We met John Miller.", "We met John Smith."),
        ("new_urls", "See https://example.org/b.", "See https://example.org/a."),
        ("new_quotations", "He said “we will win a war”", "He said “we will win the war”"),
        ("new_code", "Call `mill(x, z)` now", "Call mill(x, y) now"),
        ("flipped_negations", "The server does support TLS.", "The server does not support TLS."),
        ("flipped_comparisons", "The mill is faster today.", "The mill is slower today."),
    ],
)
def test_a_change_is_new(check, text, parent):
    """Each check finds its change, and the parent itself has none."""
    assert check in new_in(text, parent)
    assert new_in(parent, parent) == {}
