"""Prints evidence: a passage of a document next to the suite item that it matches, or a text next to its parent."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.counted import counted
from gristmill.query.documents.word_changes import same_words
from gristmill.query.lineage.evidence import Flag, ParentEvidence, text_of
from gristmill.stages.decontaminate.suite.form import Item

WIDE = 100
"""The width in columns from which two texts are shown side by side."""
MOST_FLAGS = 5
"""Flags shown per document; --full shows all."""
MOST_WORDS = 120
"""Words shown per text; --full shows all."""
MOST_BYTES = 800
"""Bytes shown of a text and its parent; --full shows all."""
MOST_COMPARED = 3000
"""Words compared with --full; otherwise twice those shown. The time of a diff grows with the square."""


def flag_text(flag: Flag) -> str:
    """One line about a flag."""
    whole = ", whole item" if flag.whole else ""
    return f"{flag.benchmark} {flag.item}: {100 * flag.coverage:.0f}% of the {flag.piece}, {flag.rule}{whole}"


def show_flags(out: Screen, flags: Sequence[tuple[Flag, Item]], full: bool) -> None:
    """Print each flag with both texts. Matching words are bold; without colours they are between [* and *]."""
    shown = flags if full else flags[:MOST_FLAGS]
    for flag, item in shown:
        out.print(words((flag_text(flag), "bold yellow"), (f"  by {flag.step}", "dim")))
        left, right = agreeing(flag.passage, text_of(item, flag), out.is_terminal, full)
        heads = f"document, bytes {flag.start:,} to {flag.stop:,}", flag.piece
        if flag.piece == "question" and item.answer:
            right.append_text(passage("\nanswer: ", "dim"))
            right.append_text(agreeing("", item.answer, out.is_terminal, full)[1])
        _show_pair(out, heads, left, right)
    if len(flags) > len(shown):
        out.print(words((f"... {counted(len(flags) - len(shown), 'more flag')} (--full)", "dim")))


def _show_pair(out: Screen, heads: tuple[str, str], left: Text, right: Text) -> None:
    """Print two texts, side by side on a wide terminal."""
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


def show_parents(out: Screen, found: Sequence[ParentEvidence], full: bool) -> None:
    """Print each text with its parent. What is new is bold; without colours it is between [+ and +]."""
    for one in found:
        kinds = Counter(departure.check for departure in one.departures)
        named = ", ".join(f"{check.replace('_', ' ')}: {times}" for check, times in kinds.items())
        out.print(words((f"new {named}", "bold yellow"), (f"  by {one.departures[0].step}", "dim")))
        data, at, marked = one.text.encode(), 0, words()
        last = len(data) if full else max(MOST_BYTES, min(one.departures[0].stop + MOST_BYTES // 2, len(data)))
        first = 0 if full else max(0, one.departures[0].start - MOST_BYTES // 2)
        at = first
        for departure in one.departures:
            if departure.start < at or departure.stop > last:
                continue  # within an earlier one, such as a number in a quotation
            marked.append_text(passage(data[at : departure.start].decode("utf-8", "ignore")))
            shown = departure.passage if out.is_terminal else f"[+{departure.passage}+]"
            marked.append_text(passage(shown, "bold red"))
            at = departure.stop
        marked.append_text(passage(data[at:last].decode("utf-8", "ignore")))
        if first or last < len(data):
            marked.append_text(words((" … (--full)", "dim")))
        parent = one.parent if full else one.parent[:MOST_BYTES]
        shown_parent = words(passage(parent), (" … (--full)" if len(parent) < len(one.parent) else "", "dim"))
        _show_pair(out, ("parent", "text"), shown_parent, marked)


def agreeing(one: str, other: str, colours: bool, full: bool) -> tuple[Text, Text]:
    """Two texts with their common words, in the same order, marked."""
    left, right = same_words(one, other, MOST_COMPARED if full else 2 * MOST_WORDS, letters_only=True)
    return _marked(left, colours, full), _marked(right, colours, full)


def _marked(side: Sequence[tuple[str, bool]], colours: bool, full: bool) -> Text:
    most = len(side) if full else min(len(side), MOST_WORDS)
    marked = words()
    for is_same, some in groupby(side[:most], lambda word: word[1]):
        text = "".join(word for word, _ in some)
        bare = text.lstrip() if is_same else ""
        marked.append_text(passage(text[: len(text) - len(bare)]))
        if is_same:
            marked.append_text(passage(bare if colours else f"[*{bare}*]", "bold green"))
    if most < len(side):
        marked.append_text(words((f" … {counted(len(side) - most, 'more word')} (--full)", "dim")))
    return marked
