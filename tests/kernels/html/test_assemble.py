"""Which blocks stay, against searches through all choices; and the alignment of a page's words with its gold."""

from bisect import bisect_left, bisect_right
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.html.assemble import (
    COPY_BYTES,
    HOLDER_BYTES,
    LEAST_EXPECTED,
    TERM_REACH,
    WINDOW,
    choose,
    close_gaps,
    drop_copies,
    drop_lone_links,
    keep_formulas,
    keep_headline,
    keep_terms,
)
from gristmill.kernels.html.context import CHANCES
from gristmill.kernels.html.features import AT_TITLE, G_COLUMNS
from gristmill.kernels.html.layout import (
    B_CHARS,
    B_ELEMENT,
    B_KIND,
    B_LINK_CHARS,
    B_START,
    B_STOP,
    B_UNITS,
    B_WORDS,
    BLOCK_COLUMNS,
    BOX_DD,
    BOX_DT,
    BOX_LI,
    BOX_NAMES,
    E_FIRST,
    E_LAST,
    E_PARENT,
    E_PATH,
    ELEMENT_COLUMNS,
)
from gristmill_extractor.align import align

SCORES = st.one_of(st.integers(-6000, 6000), st.sampled_from([0, 31, 32, -32, -33, -(2**31), 2**31 - 1]))


def best_choice(scores: list[int], sizes: list[int]) -> tuple[int, int]:
    """The F1 of 1,000 that the best threshold promises, and the highest threshold that promises it."""
    bytes_ = [min(255, max(0, (score >> 5) + 128)) for score in scores]
    chances = [int(CHANCES[byte]) for byte in bytes_]
    total = sum(size * chance for size, chance in zip(sizes, chances, strict=True))
    promises = {}
    for least in sorted(set(bytes_), reverse=True):
        kept = [place for place, byte in enumerate(bytes_) if byte >= least]
        right = sum(sizes[place] * chances[place] for place in kept)
        promises[least] = 2000 * right // (1000 * sum(sizes[place] for place in kept) + total)
    best = max(promises.values())
    return best, next(least for least, promised in promises.items() if promised == best)


@given(st.lists(st.tuples(SCORES, st.integers(0, 300), st.integers(0, 50)), min_size=1, max_size=30))
def test_the_choice_is_the_best_of_all_thresholds(rows: list[tuple[int, int, int]]) -> None:
    """Each threshold keeps everything from some score on; nothing is kept if no choice promises enough."""
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_WORDS], blocks[:, B_UNITS] = [row[1] for row in rows], [row[2] for row in rows]
    scores = [row[0] for row in rows]
    keep = np.full(len(rows), 7, np.uint8)
    found = choose(np.array(scores, np.int32), blocks, len(rows), keep)
    best, least = best_choice(scores, [max(1, words + units // 2) for _, words, units in rows])
    assert found == best
    enough = best >= LEAST_EXPECTED
    assert keep.tolist() == [enough and min(255, max(0, (score >> 5) + 128)) >= least for score in scores]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=12))
def test_a_gap_between_two_of_its_kind_is_closed(rows: list[tuple[bool, int]]) -> None:
    """Gaps are closed from the first block on: an added block becomes the neighbour of the next one."""
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_ELEMENT] = np.arange(len(rows))
    elements = np.zeros((len(rows), ELEMENT_COLUMNS), np.int32)
    elements[:, E_PATH] = [path for _, path in rows]
    keep = np.array([kept for kept, _ in rows], np.uint8)
    close_gaps(blocks, len(rows), elements, keep)
    expected = [kept for kept, _ in rows]
    for row in range(1, len(rows) - 1):
        alike = {path for _, path in rows[row - 1 : row + 2]}
        expected[row] |= expected[row - 1] and expected[row + 1] and len(alike) == 1
    assert keep.tolist() == expected


@given(st.lists(st.tuples(st.sampled_from(["dt", "dd", "other list"]), st.booleans()), max_size=14))
def test_a_term_is_kept_if_its_definition_is(rows: list[tuple[str, bool]]) -> None:
    """One of the next blocks of the same list decides, up to the next term, which decides if it is directly after."""
    kinds, count = [kind for kind, _ in rows], len(rows)
    blocks = np.zeros((count, BLOCK_COLUMNS), np.int32)
    blocks[:, B_KIND] = [BOX_DT if kind == "dt" else BOX_DD for kind in kinds]
    elements = np.zeros((count + 2, ELEMENT_COLUMNS), np.int32)
    # Elements 0 and 1 are two lists, one after the other; each block is in an element of its own.
    first = kinds.index("other list") if "other list" in kinds else count
    elements[0, E_LAST], elements[1, E_LAST] = first, count
    blocks[:, B_ELEMENT] = np.arange(count) + 2
    elements[2:, E_PARENT] = [int(row >= first) for row in range(count)]
    keep = np.array([kept for _, kept in rows], np.uint8)
    keep_terms(blocks, count, elements, keep)
    expected = [kept for _, kept in rows]
    for row in reversed(range(count)):
        if kinds[row] != "dt":
            continue
        after = range(row + 1, min(row + 1 + TERM_REACH, count if row >= first else first))
        terms = [other for other in after if kinds[other] == "dt"]
        expected[row] |= any(expected[other] for other in after if not terms or other <= terms[0])
    assert keep.tolist() == expected


STARTS = [b"\x7f[x\x7f)", b"| \x7f[x\x7f) | (1)", b"\\[ x \\]", b"\x7f(x\x7f) is", b"words", b"\\", b"| "]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(STARTS)), max_size=12))
def test_formulas_beside_kept_blocks_are_kept(rows: list[tuple[bool, bytes]]) -> None:
    """All of a run of formulas on their own lines, if a block before or after it is kept."""
    texts = [text for _, text in rows]
    ends = np.cumsum([0, *map(len, texts)])
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_START], blocks[:, B_STOP] = ends[:-1], ends[1:]
    keep = np.array([kept for kept, _ in rows], np.uint8)
    keep_formulas(blocks, len(rows), np.frombuffer(b"".join(texts) + b" ", np.uint8).copy(), keep)
    expected = [kept for kept, _ in rows]
    for _ in rows:
        for row, text in enumerate(texts):
            beside = expected[max(0, row - 1) : row + 2]
            expected[row] |= text in STARTS[:3] and any(beside)
    assert keep.tolist() == expected


def without_copies(texts: list[bytes], keep: list[bool], boxes: list[int]) -> list[bool]:
    """By comparing texts, with no hash."""
    keep = list(keep)
    owners: dict[bytes, int] = {}
    wholes: dict[bytes, int] = {}
    long = [row for row, text in enumerate(texts) if keep[row] and len(text) >= COPY_BYTES]
    for row in long:
        owners.setdefault(texts[row][:WINDOW], row)
        keep[row] = boxes[wholes.setdefault(texts[row], row)] == boxes[row]
    for row in long:
        text = texts[row]
        if not keep[row] or len(text) < HOLDER_BYTES:
            continue
        places = [
            at
            for at in range(1, len(text) - WINDOW)
            if text[at - 1] <= 32 or text[at - 1] in b"." or text[at - 1] >= 128
        ]
        keep[row] = len({owners.get(text[at : at + WINDOW], row) for at in places} - {row}) < 3
    return keep


PIECES = [bytes([65 + n]) * 3 + b" paragraph of the page, which says something of its own, %d." % n for n in range(6)]
TEXTS = st.one_of(
    st.sampled_from([*PIECES, b"short", PIECES[0][:40], PIECES[1] + b" And more."]),
    st.lists(st.sampled_from([*PIECES, b" ", b"x" * 90, "ü".encode()]), min_size=4, max_size=9).map(b"".join),
)


@given(st.lists(st.tuples(TEXTS, st.sampled_from([True, True, False]), st.integers(0, 1)), max_size=9))
def test_copies_are_those_that_a_comparison_finds(rows: list[tuple[bytes, bool, int]]) -> None:
    """A long block for the second time in another box, and one that holds the beginnings of three others."""
    texts, kept, boxes = ([row[field] for row in rows] for field in range(3))
    ends = np.cumsum([0, *map(len, texts)])
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_START], blocks[:, B_STOP] = ends[:-1], ends[1:]
    blocks[:, B_ELEMENT] = np.arange(len(rows))
    elements = np.zeros((len(rows), ELEMENT_COLUMNS), np.int32)
    elements[:, E_PARENT] = boxes
    keep = np.array(kept, np.uint8)
    buffer = np.frombuffer(b"".join(texts), np.uint8).copy()
    keys, owners = np.empty(64, np.int64), np.empty((64, G_COLUMNS), np.int64)
    drop_copies(blocks, len(rows), elements, keep, buffer, keys, owners, 63)
    assert keep.tolist() == without_copies(texts, kept, boxes)


HEADING, PARAGRAPH = BOX_NAMES.index("h1"), BOX_NAMES.index("p")


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=9), st.integers(0, 9))
def test_the_headline_is_kept_if_kept_prose_follows(rows: list[tuple[bool, bool, bool]], title: int) -> None:
    """The row with the page's title, if it is a heading, and not after the first prose that is kept."""
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_KIND] = [HEADING if heading else PARAGRAPH for heading, _, _ in rows]
    since_title = np.array([AT_TITLE + row - title for row in range(len(rows))], np.uint8)
    prose = np.array([prose for _, prose, _ in rows], np.uint8)
    keep = np.array([kept for _, _, kept in rows], np.uint8)
    keep_headline(blocks, len(rows), since_title, prose, keep)
    expected = [kept for _, _, kept in rows]
    first = next((row for row, (_, prose, kept) in enumerate(rows) if prose and kept), -1)
    if title <= first and rows[title][0]:
        expected[title] = True
    assert keep.tolist() == expected


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)), max_size=12))
def test_links_of_a_list_stay_with_half_of_it(rows: list[tuple[bool, bool, int]]) -> None:
    """Other items stay in any case."""
    rows = sorted(rows, key=lambda row: row[2])
    blocks = np.zeros((len(rows), BLOCK_COLUMNS), np.int32)
    blocks[:, B_KIND], blocks[:, B_CHARS], blocks[:, B_ELEMENT] = BOX_LI, 9, np.arange(3, 3 + len(rows))
    blocks[:, B_LINK_CHARS] = [9 if link else 8 for link, _, _ in rows]
    elements = np.zeros((3 + len(rows), ELEMENT_COLUMNS), np.int32)
    elements[3:, E_PARENT] = boxes = [box for _, _, box in rows]
    for box in range(3):
        elements[box, E_FIRST], elements[box, E_LAST] = bisect_left(boxes, box), bisect_right(boxes, box)
    keep = np.array([kept for _, kept, _ in rows], np.uint8)
    drop_lone_links(blocks, len(rows), elements, keep)
    shares = {box: [kept for _, kept, its in rows if its == box] for box in boxes}
    expected = [kept and (not link or 2 * sum(shares[box]) >= len(shares[box])) for link, kept, box in rows]
    assert keep.tolist() == expected


def best_score(page: list[int], gold: list[int], found: list[bool] | None = None) -> int:
    """The score of the best alignment: 2 for a pair, 4 for a pair right after another; with `found`, of those words and
    all.
    """

    @cache
    def best(row: int, column: int, run: bool) -> int:
        if row == len(page):
            return 0
        must, may = (found is not None and found[row]), (found is None or found[row])
        values = [-(10**6)] if must else [best(row + 1, column, False)]
        if column < len(gold):
            values.append(best(row, column + 1, False))
            if may and page[row] == gold[column]:
                values.append((4 if run else 2) + best(row + 1, column + 1, True))
        return max(values)

    return best(0, 0, False)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=14), st.lists(st.integers(0, 4), max_size=14))
def test_an_alignment_counts_as_much_as_the_best(page: list[int], gold: list[int]) -> None:
    """The words that are marked can be aligned, all of them, and no choice of words counts more."""
    found = align(np.array(page, np.int64), np.array(gold, np.int64)).astype(bool).tolist()
    assert best_score(page, gold, found) == best_score(page, gold)


def test_a_sentence_is_aligned_as_a_whole() -> None:
    """Its words in a menu before it are not taken."""
    page = [1, 2, 3, 9, 9, 1, 2, 3, 4]
    assert align(np.array(page), np.array([1, 2, 3, 4])).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
