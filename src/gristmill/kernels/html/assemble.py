"""Chooses the blocks of a page that are kept, and writes their text."""

from typing import Any

import numpy as np

from gristmill.kernels.compile import njit
from gristmill.kernels.html import layout
from gristmill.kernels.html.context import CHANCES
from gristmill.kernels.html.features import AT_TITLE, LEVEL
from gristmill.kernels.html.hashes import MAX_TRIES, text_hash
from gristmill.kernels.html.inline import MARK
from gristmill.kernels.html.names import HASH_MIX
from gristmill.kernels.memory import borrow, eight_bytes_at, view
from gristmill.kernels.memory_writes import copy_bytes
from gristmill.kernels.text.ascii import BACKSLASH, BACKTICK, BAR, DOT, GREATER, HYPHEN, LEFT_BRACKET, LF, LOWER_A, SP

LEAST_EXPECTED = 100
"""In thousandths: if no choice has a better expected F1, the page has no main content."""
WINDOW = 24
COPY_BYTES = 60
HOLDER_BYTES = 400
"""Sizes of the prefix by which blocks are compared, of blocks that are compared, and of blocks that may contain
others."""
MAX_BUTTON_WORDS = 5
"""Longer buttons are headings of what they open, as in lists of questions."""
MAX_INDENT = 8
MOST_LETTERED, MOST_ROMAN = 18_000, 4000
"""Larger numbers of items are written in digits."""
_LOWER_ALPHA, _UPPER_ALPHA, _LOWER_ROMAN, _UPPER_ROMAN = range(1, len(layout.LIST_FORMS))
_ROMAN = ((1000, "m "), (900, "cm"), (500, "d "), (400, "cd"), (100, "c "), (90, "xc"), (50, "l "), (40, "xl"))
_ROMAN_DIGITS = ((10, "x "), (9, "ix"), (5, "v "), (4, "iv"), (1, "i "))
_ROMAN_VALUES = np.array([value for value, _ in (*_ROMAN, *_ROMAN_DIGITS)], np.int64)
_ROMAN_LETTERS = np.array([list(letters.encode()) for _, letters in (*_ROMAN, *_ROMAN_DIGITS)], np.uint8)
TERM_REACH = 3
"""Blocks after a term, of which one that is kept keeps the term."""
BLOCK_ROOM = 64
"""Bytes that a block may take beside its text."""


@njit(nogil=True, cache=True)
def choose(scores: np.ndarray, blocks: np.ndarray, count: int, keep: np.ndarray) -> int:
    """Marks the blocks that together have the best expected F1 of words; returns that F1 in thousandths.

    Scores are probabilities that a block is content. If all blocks down to some probability are kept, the expected
    number of correct words is the sum of probability times words, and so is the number of words that should be kept,
    over all blocks.
    """
    scores, blocks, keep = borrow(scores), borrow(blocks), borrow(keep)
    words = np.zeros(256, np.int64)
    total = 0
    # Add up words by score, and the words that are probably content.
    for row in range(count):
        byte = min(255, max(0, (scores[row] >> 5) + 128))
        size = max(1, blocks[row, layout.B_WORDS] + (blocks[row, layout.B_UNITS] >> 1))
        words[byte] += size
        total += size * CHANCES[byte]
    best, least = -1, 256
    kept = right = 0
    # From the best score down: the least one that still improves the expected F1 is the limit.
    for byte in range(255, -1, -1):
        if words[byte]:
            kept += words[byte]
            right += words[byte] * CHANCES[byte]
            promised = 2000 * right // (1000 * kept + total)
            if promised > best:
                best, least = promised, byte
    for row in range(count):
        keep[row] = min(255, max(0, (scores[row] >> 5) + 128)) >= least and best >= LEAST_EXPECTED
    return best


@njit(nogil=True, cache=True)
def close_gaps(blocks: np.ndarray, count: int, elements: np.ndarray, keep: np.ndarray) -> None:
    """Keeps blocks between two kept blocks if all three have the same kind of box."""
    blocks, elements, keep = borrow(blocks), borrow(elements), borrow(keep)
    # The three blocks have equal paths.
    for row in range(1, count - 1):
        if not keep[row] and keep[row - 1] and keep[row + 1]:
            path = elements[blocks[row, layout.B_ELEMENT], layout.E_PATH]
            before, after = blocks[row - 1, layout.B_ELEMENT], blocks[row + 1, layout.B_ELEMENT]
            keep[row] = elements[before, layout.E_PATH] == path and elements[after, layout.E_PATH] == path


@njit(nogil=True, cache=True)
def keep_terms(blocks: np.ndarray, count: int, elements: np.ndarray, keep: np.ndarray) -> None:
    """Keeps terms whose definition is kept, such as the signatures of a manual."""
    blocks, elements, keep = borrow(blocks), borrow(elements), borrow(keep)
    # Backward, since several terms may share one definition.
    for row in range(count - 2, -1, -1):
        if keep[row] or blocks[row, layout.B_KIND] != layout.BOX_DT:
            continue
        last = elements[elements[blocks[row, layout.B_ELEMENT], layout.E_PARENT], layout.E_LAST]
        # The beginning of the definition decides; it may be a label that is left out.
        for other in range(row + 1, min(row + 1 + TERM_REACH, last)):
            keep[row] |= keep[other]
            if blocks[other, layout.B_KIND] == layout.BOX_DT:
                break


@njit(nogil=True, cache=True)
def keep_formulas(blocks: np.ndarray, count: int, texts: np.ndarray, keep: np.ndarray) -> None:
    """Keeps blocks that begin with a formula on its own line, if they are next to a kept block."""
    blocks, keep, text = borrow(blocks), borrow(keep), view(texts)
    # Forward for formulas after kept text, backward for those before it.
    for backward in (False, True):
        is_kept = np.uint8(0)
        # A formula that is kept keeps the next one, too.
        for place in range(count):
            row = count - 1 - place if backward else place
            at, stop = blocks[row, layout.B_START], blocks[row, layout.B_STOP] - 1
            while at < stop and (text[at] <= SP or text[at] == BAR):
                at += 1
            if is_kept and at < stop and (text[at] == MARK or text[at] == BACKSLASH):
                keep[row] |= text[at + 1] == LEFT_BRACKET
            is_kept = keep[row]


@njit(nogil=True, cache=True)
def keep_headline(blocks: np.ndarray, count: int, since_title: np.ndarray, prose: np.ndarray, keep: np.ndarray) -> None:
    """Keeps the heading with the page's title if it is before the first kept prose: the headline of an article."""
    blocks, keep = borrow(blocks), borrow(keep)
    since_title, prose = borrow(since_title), borrow(prose)
    headline = -1
    # The last heading before the prose counts.
    for row in range(count):
        if since_title[row] == AT_TITLE and LEVEL[blocks[row, layout.B_KIND]]:
            headline = row
        if keep[row] and prose[row]:
            if headline >= 0:
                keep[headline] = 1
            break


@njit(nogil=True, cache=True)
def drop_controls(blocks: np.ndarray, count: int, elements: np.ndarray, comments: bool, keep: np.ndarray) -> None:
    """Drops the text of buttons, and that of cookie notices, of invisible elements and, unless they are wanted, of
    readers' comments, if the page has more other content: some pages hide everything until a script has run.
    """
    blocks, elements, keep = borrow(blocks), borrow(elements), borrow(keep)
    # Buttons first: they are never content.
    for row in range(count):
        if (
            keep[row]
            and blocks[row, layout.B_KIND] == layout.BOX_BUTTON
            and blocks[row, layout.B_WORDS] <= MAX_BUTTON_WORDS
        ):
            keep[row] = 0
    # Each kind of hint is decided by what the others leave.
    for hint in (layout.HINT_COOKIE, layout.HINT_INVISIBLE, 0 if comments else layout.HINT_COMMENT):
        hinted = others = 0
        # Compare the words with the hint and without it.
        for row in range(count):
            if keep[row] and elements[blocks[row, layout.B_ELEMENT], layout.E_ALL_HINTS] & hint:
                hinted += blocks[row, layout.B_WORDS]
            elif keep[row]:
                others += blocks[row, layout.B_WORDS]
        if hinted and hinted <= others:
            for row in range(count):
                keep[row] &= elements[blocks[row, layout.B_ELEMENT], layout.E_ALL_HINTS] & hint == 0


@njit(nogil=True, cache=True)
def drop_lone_links(blocks: np.ndarray, count: int, elements: np.ndarray, keep: np.ndarray) -> None:
    """Drops items that are only links if fewer than half of the blocks of their list are kept."""
    blocks, elements, keep = borrow(blocks), borrow(elements), borrow(keep)
    kept = np.zeros(count + 1, np.int64)
    for row in range(count):
        kept[row + 1] = kept[row] + keep[row]
    # Count the kept blocks of the list by their sums.
    for row in range(count):
        if (
            keep[row]
            and blocks[row, layout.B_KIND] == layout.BOX_LI
            and blocks[row, layout.B_LINK_CHARS] >= blocks[row, layout.B_CHARS]
        ):
            around = elements[blocks[row, layout.B_ELEMENT], layout.E_PARENT]
            first, last = elements[around, layout.E_FIRST], elements[around, layout.E_LAST]
            keep[row] = 2 * (kept[last] - kept[first]) >= last - first


@njit(nogil=True, cache=True)
def drop_copies(
    blocks: np.ndarray,
    count: int,
    elements: np.ndarray,
    keep: np.ndarray,
    texts: np.ndarray,
    keys: np.ndarray,
    owners: np.ndarray,
    mask: int,
) -> None:
    """Drops repeated text: the second copy of a long block in another box, and a block that contains the beginnings of
    three others, such as a copy of the article for another layout. What a box repeats itself is a refrain, and stays.

    `keys` and `owners` are tables of `mask` + 1 places, a power of two, more than twice the number of blocks.
    """
    text = view(texts)
    blocks, elements, keep, keys, owners = (
        borrow(blocks),
        borrow(elements),
        borrow(keep),
        borrow(keys),
        borrow(owners),
    )
    for slot in range(mask + 1):
        owners[slot, 0] = owners[slot, 1] = -1
    longest = 0
    # Enter the first window of each long block, and compare it with an equal one.
    for row in range(count):
        begin, stop = blocks[row, layout.B_START], blocks[row, layout.B_STOP]
        if not keep[row] or stop - begin < COPY_BYTES:
            continue
        longest = max(longest, stop - begin)
        window = _window_slot(keys, owners, _window(text, begin), mask)
        if owners[window, 0] < 0:
            owners[window, 0] = row
        whole = np.int64(text_hash(text, begin, stop) >> np.uint64(1))
        slot = _window_slot(keys, owners, whole, mask)
        if owners[slot, 0] < 0:
            owners[slot, 0] = row
            continue
        first = blocks[owners[slot, 0], layout.B_START]
        same = 0
        box = elements[blocks[row, layout.B_ELEMENT], layout.E_PARENT]
        if box == elements[blocks[owners[slot, 0], layout.B_ELEMENT], layout.E_PARENT]:
            continue
        if blocks[owners[slot, 0], layout.B_STOP] - first == stop - begin:
            while same < stop - begin and text[begin + same] == text[first + same]:
                same += 1
        keep[row] = same < stop - begin
    if longest < HOLDER_BYTES:
        return
    # Search long blocks for the windows of others.
    for row in range(count):
        begin, stop = blocks[row, layout.B_START], blocks[row, layout.B_STOP]
        if not keep[row] or stop - begin < HOLDER_BYTES:
            continue
        held = 0
        # Windows are only looked up where a paragraph may begin.
        for at in range(begin + 1, stop - WINDOW):
            before = text[at - 1]
            if before <= 0x20 or before == 0x2E or before >= 0x80:  # a paragraph may directly follow the one before it
                here = _window(text, at)
                slot = _window_slot(keys, owners, here, mask)
                if owners[slot, 0] >= 0 and owners[slot, 0] != row and owners[slot, 1] != row and keys[slot] == here:
                    owners[slot, 1] = row  # each of the others counts once
                    held += 1
        keep[row] = held < 3


@njit(nogil=True, cache=True, forceinline=True)
def _window(text: Any, at: int) -> Any:
    """Returns a hash of the WINDOW bytes at `at`."""
    code = eight_bytes_at(text, at) * HASH_MIX
    code = (code ^ code >> np.uint64(29) ^ eight_bytes_at(text, at + 8)) * HASH_MIX
    code = (code ^ code >> np.uint64(29) ^ eight_bytes_at(text, at + 16)) * HASH_MIX
    return np.int64((code ^ code >> np.uint64(32)) >> np.uint64(1))


@njit(nogil=True, cache=True, forceinline=True)
def _window_slot(keys: np.ndarray, owners: np.ndarray, key: Any, mask: int) -> Any:
    """Returns the slot of a window, or the empty slot where it belongs."""
    slot = key & mask
    # The number of tries is bounded, so that a page cannot make all keys collide.
    for _ in range(MAX_TRIES):
        if owners[slot, 0] < 0 or keys[slot] == key:
            break
        slot = (slot + 1) & mask
    if owners[slot, 0] < 0:
        keys[slot] = key
    return slot


@njit(nogil=True, cache=True, forceinline=True)
def _put(text: Any, at: int, byte: int, times: int) -> int:
    # Write the byte so many times.
    for _ in range(times):
        text[at] = byte
        at += 1
    return at


@njit(nogil=True, cache=True)
def _put_number(text: Any, at: int, number: int) -> int:
    size = 1
    power = 10
    # Count the digits.
    while power <= number:
        power *= 10
        size += 1
    # Write them from the last one.
    for place in range(size - 1, -1, -1):
        text[at + place] = 0x30 + number % 10
        number //= 10
    return at + size


@njit(nogil=True, cache=True)
def _put_letters(text: Any, at: int, number: int, form: int) -> int:
    """Writes the number of an item as letters: aa after z, or a Roman numeral."""
    is_upper = form == _UPPER_ALPHA or form == _UPPER_ROMAN
    begin = at
    if form == _LOWER_ALPHA or form == _UPPER_ALPHA:
        # The last letter first, and each before those that are written.
        while number > 0:
            for place in range(at, begin, -1):
                text[place] = text[place - 1]
            text[begin] = LOWER_A + (number - 1) % 26
            number = (number - 1) // 26
            at += 1
    else:
        # Each numeral as often as it fits.
        for row in range(_ROMAN_VALUES.size):
            while number >= _ROMAN_VALUES[row]:
                number -= _ROMAN_VALUES[row]
                for letter in range(2):
                    if _ROMAN_LETTERS[row, letter] != SP:
                        text[at] = _ROMAN_LETTERS[row, letter]
                        at += 1
    if is_upper:
        for place in range(begin, at):
            text[place] -= 0x20
    return at


@njit(nogil=True, cache=True)
def _put_marker(out: Any, end: int, marker: int) -> int:
    end = _put(out, end, 0x20, 2 * min(MAX_INDENT, max(0, (marker >> layout.DEPTH_BIT & layout.DEPTHS) - 1)))
    number = marker >> 1 & 0x7FFFF
    form = marker >> layout.FORM_BIT
    if not marker & 1:
        return _put(out, end, 0x20, 2)
    if number:
        is_letters = 1 < number <= (MOST_LETTERED if form < _LOWER_ROMAN else MOST_ROMAN) and form > 0
        end = _put_letters(out, end, number - 1, form) if is_letters else _put_number(out, end, number - 1)
        out[end] = DOT
    else:
        out[end] = HYPHEN
    out[end + 1] = SP
    return end + 2


@njit(nogil=True, cache=True)
def _new_line(out: Any, end: int, quoted: bool) -> int:
    """Writes a line end; in Markdown every line of a quotation begins with a sign."""
    out[end] = LF
    if quoted:
        out[end + 1] = GREATER
        out[end + 2] = SP
    return end + (3 if quoted else 1)


@njit(nogil=True, cache=True)
def _fence_of(text: Any, begin: int, stop: int) -> int:
    """Returns the length of the fence around code: one more than its longest run of fence signs, at least three."""
    longest = run = 0
    # Find the longest run of fence signs.
    for at in range(begin, stop):
        run = run + 1 if text[at] == BACKTICK else 0
        longest = max(longest, run)
    return max(3, longest + 1)


@njit(nogil=True, cache=True)
def _put_lines(text: Any, begin: int, stop: int, out: Any, end: int, quoted: bool, heading: bool) -> int:
    """Writes the text of a block; a heading of Markdown is one line."""
    if not quoted and not heading:
        copy_bytes(out, end, text, begin, stop - begin)
        return end + stop - begin
    # Each line of a quotation has its own mark.
    for at in range(begin, stop):
        byte = text[at]
        if byte == LF and not heading:
            end = _new_line(out, end, quoted)
        else:
            out[end] = 0x20 if byte == LF else byte
            end += 1
    return end


@njit(nogil=True, cache=True)
def _table_of(elements: np.ndarray, element: int) -> int:
    """Returns the table of a row: the element around it, or around its <tbody>."""
    # A row is in a table, or in a part of one.
    for _ in range(2):
        if elements[element, layout.E_KIND] != layout.BOX_TABLE:
            element = elements[element, layout.E_PARENT]
    return element


@njit(nogil=True, cache=True)
def write_text(
    blocks: np.ndarray,
    count: int,
    elements: np.ndarray,
    keep: np.ndarray,
    texts: np.ndarray,
    out: np.ndarray,
    markdown: bool,
) -> int:
    """Writes the kept blocks to `out`; returns the end. An empty line separates them, except for items, rows and terms.

    `out` needs three times the size of the texts, and BLOCK_ROOM bytes per block. In Markdown a line end takes three
    bytes in a quotation. The separator of cells, one byte in two, takes four more in the line below the first row of a
    table, and a sign that could end a fence of code takes one more in both fences. A block also has at most 5 bytes
    before it, 24 of a marker (eight indents, a number of six digits, a dot, a space), 8 of fences or heading signs, 4
    around a row and 8 of the line below it, and 6 for quoted line ends.
    """
    text, target = view(texts), view(out)
    blocks, elements, keep = borrow(blocks), borrow(elements), borrow(keep)
    end = fence = 0
    last = -1
    # Each turn writes the separator from the block before it, the marks of its kind, its text and their ends.
    for row in range(count):
        if not keep[row]:
            continue
        begin, stop = blocks[row, layout.B_START], blocks[row, layout.B_STOP]
        kind, marker = blocks[row, layout.B_KIND], blocks[row, layout.B_MARKER]
        level = LEVEL[kind]
        is_row = kind == layout.BOX_TR
        new_table = is_row
        verbatim, quoted = blocks[row, layout.B_VERBATIM], markdown and blocks[row, layout.B_QUOTE] > 0
        if last >= 0:
            end = _put(target, end, 0x0A, 1)
            tight = marker != 0 and blocks[last, layout.B_MARKER] != 0
            if is_row and blocks[last, layout.B_KIND] == layout.BOX_TR:
                tight |= _table_of(elements, blocks[row, layout.B_ELEMENT]) == _table_of(
                    elements, blocks[last, layout.B_ELEMENT]
                )
            tight |= kind == layout.BOX_DD and (
                blocks[last, layout.B_KIND] == layout.BOX_DT or blocks[last, layout.B_KIND] == layout.BOX_DD
            )
            new_table &= not tight
            if not tight:
                if quoted and blocks[last, layout.B_QUOTE] > 0:
                    end = _put(target, end, 0x3E, 1)
                end = _put(target, end, 0x0A, 1)
        if quoted:
            target[end] = GREATER
            target[end + 1] = SP
            end += 2
        if marker and not level and not verbatim:  # a space would only shift the first line of code
            end = _put_marker(target, end, marker)
        if markdown:
            if level:
                end = _put(target, _put(target, end, 0x23, level), 0x20, 1)
            elif verbatim:
                fence = _fence_of(text, begin, stop)
                end = _new_line(target, _put(target, end, 0x60, fence), quoted)
            elif is_row:
                target[end] = BAR
                target[end + 1] = SP
                end += 2
        end = _put_lines(text, begin, stop, target, end, quoted, markdown and level > 0)
        if markdown and verbatim and not level:
            end = _put(target, _new_line(target, end, quoted), 0x60, fence)
        elif markdown and is_row:
            end = _put(target, _put(target, end, 0x20, 1), 0x7C, 1)
            if new_table:
                end = _put(target, _new_line(target, end, quoted), 0x7C, 1)
                # One part of the line below the first row for each of its cells.
                for at in range(begin - 1, stop):
                    if at < begin or (at > begin and text[at] == BAR and text[at - 1] == SP):
                        end = _put(target, _put(target, end, 0x2D, 3), 0x7C, 1)
        last = row
    return end
