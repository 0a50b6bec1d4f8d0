"""The comparison of a text with its parent."""

import hashlib
import random
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gristmill_generate.compare.compare import CHECKS, COLUMNS, MOST_SPANS, ParentText, compare

WORDS = [
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
PINNED = "77596514ffa85416"
PIECES = st.sampled_from(WORDS)
JOINTS = st.sampled_from(["", " ", " ", " ", "\n", "\n\n", "\u00a0"])
TEXTS = st.lists(st.tuples(PIECES, JOINTS), max_size=40).map(lambda found: "".join(a + b for a, b in found))


@given(TEXTS)
@example('“one two” `a(b, c)` $x+y$ "one [x] three"')
def test_a_text_has_nothing_new_to_itself(text):
    counts, _ = compare(text, ParentText(text))
    assert {name: counts[name] for name in (*CHECKS, "language_changed", "looped_words") if counts[name]} == {}


@given(TEXTS, TEXTS)
def test_spans_are_inside_the_text_and_counted(text, parent):
    """Each begins and ends between two characters; there are as many as the checks count."""
    counts, spans = compare(text, ParentText(parent))
    assert Counter(span.check for span in spans) == Counter({name: counts[name] for name in CHECKS if counts[name]})
    data = text.encode()
    assert all(data[span.start : span.stop].decode() for span in spans)


def test_a_parent_is_read_once_for_all_its_children():
    said = "The mill of Anna Richter grinds 40 tons."
    read = ParentText(said)
    for text in (said, "The mill of Bob grinds 50 tons.", "It grinds.", ""):
        assert compare(text, read) == compare(text, ParentText(said))


def test_spans_are_limited_and_counts_go_on():
    counts, spans = compare(" ".join(f"n{number}" for number in range(1200)), ParentText("The mill."))
    assert (counts["new_numbers"], len(spans)) == (1200, MOST_SPANS)


def drawn(rng):
    """Words, marks and joints, many of them parts of facts."""
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", " ", " ", "\n", "\n\n"]) for _ in range(rng.randint(0, 60)))


def test_results_are_pinned():
    """Of 2,000 random pairs: a change of any of them needs a new version of the step."""
    rng, digest = random.Random(7), hashlib.sha256()
    for _ in range(2000):
        text, parent = drawn(rng), drawn(rng)
        counts, spans = compare(f"{parent[: rng.randint(0, 60)]} {text}", ParentText(parent))
        digest.update(repr(([int(counts[name]) for name in COLUMNS], sorted(map(tuple, spans)))).encode())
    assert digest.hexdigest()[:16] == PINNED


def new_in(text, parent):
    counts, _ = compare(text, ParentText(parent))
    return {name: counts[name] for name in CHECKS if counts[name]}


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
