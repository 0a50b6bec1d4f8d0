"""Evidence for a person: the passage of a document and the item of a suite that it is of, side by side."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from rich.table import Table
from rich.text import Text

from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.counted import counted
from gristmill.query.lineage.evidence import Flag, text_of
from gristmill.stages.decontaminate.suite.form import Item

WIDE = 100
"""Columns of a terminal that has room for two texts."""
MOST_FLAGS = 5
"""Of a document; --full shows all."""
MOST_WORDS = 120
"""Of a text that is shown; --full shows all."""
MOST_COMPARED = 3000
"""Words of a text that are compared: the time of a diff grows with their square. Without --full twice those shown."""
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff"
"""Scripts without spaces: a character is a word."""
_WORD = re.compile(rf"\s*(?:[{_UNSPACED}]|[^\s{_UNSPACED}]+)")


def flag_text(flag: Flag) -> str:
    """What was found, in a line."""
    whole = ", whole item" if flag.whole else ""
    return f"{flag.benchmark} {flag.item}: {100 * flag.coverage:.0f}% of the {flag.piece}, {flag.rule}{whole}"


def show_flags(out: Screen, flags: Sequence[tuple[Flag, Item]], full: bool) -> None:
    """Each with both texts; words that agree are bold, and without colours between [* and *]."""
    shown = flags if full else flags[:MOST_FLAGS]
    for flag, item in shown:
        out.print(words((flag_text(flag), "bold yellow"), (f"  by {flag.step}", "dim")))
        left, right = agreeing(flag.passage, text_of(item, flag), out.is_terminal, full)
        heads = f"document, bytes {flag.start:,} to {flag.stop:,}", flag.piece
        if flag.piece == "question" and item.answer:
            right.append_text(passage("\nanswer: ", "dim"))
            right.append_text(agreeing("", item.answer, out.is_terminal, full)[1])
        if out.is_terminal and out.width >= WIDE:
            pair = Table(show_edge=False, expand=True, padding=(0, 1))
            for head in heads:
                pair.add_column(words((head, "dim")), ratio=1)
            pair.add_row(left, right)
            out.print(pair)
        else:
            for head, text in zip(heads, (left, right), strict=True):
                out.print(words((f"{head}: ", "dim"), text))
        out.print()
    if len(flags) > len(shown):
        out.print(words((f"... {counted(len(flags) - len(shown), 'more flag')} (--full)", "dim")))


def agreeing(one: str, other: str, colours: bool, full: bool) -> tuple[Text, Text]:
    """Two texts in which what both have, in the same order, stands out."""
    sides = [_words(text) for text in (one, other)]
    most = MOST_COMPARED if full else 2 * MOST_WORDS
    bare = [[_letters(word) for word in side[:most]] for side in sides]
    blocks = SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_matching_blocks()
    return (
        _marked(sides[0], [(block.a, block.a + block.size) for block in blocks], colours, full),
        _marked(sides[1], [(block.b, block.b + block.size) for block in blocks], colours, full),
    )


def _words(text: str) -> list[str]:
    """Words with the white space before them; signs that stand alone go with the word before."""
    made: list[str] = []
    for word in _WORD.findall(text):
        if made and not _letters(word):
            made[-1] += word
        else:
            made.append(word)
    return made


def _letters(word: str) -> str:
    return "".join(one for one in word.lower() if one.isalnum())


def _marked(side: Sequence[str], spans: Sequence[tuple[int, int]], colours: bool, full: bool) -> Text:
    most = len(side) if full else min(len(side), MOST_WORDS)
    made, at = words(), 0
    for start, stop in spans:
        begin, end = min(start, most), min(stop, most)
        if begin < end:
            made.append_text(passage("".join(side[at:begin])))
            equal = "".join(side[begin:end])
            bare = equal.lstrip()
            made.append_text(passage(equal[: len(equal) - len(bare)]))
            made.append_text(passage(bare if colours else f"[*{bare}*]", "bold green"))
            at = end
    made.append_text(passage("".join(side[at:most])))
    if most < len(side):
        made.append_text(words((f" … {counted(len(side) - most, 'more word')} (--full)", "dim")))
    return made
