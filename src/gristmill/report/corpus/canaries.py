"""Canaries (query/canaries.py) as a page without scripts, and as a section of the report."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.canaries import Canary, find
from gristmill.query.documents.word_changes import ADDED, NOTE, REMOVED, SAME
from gristmill.report.corpus.reported import Section
from gristmill.report.page import render

TAGS = {SAME: "span", NOTE: "i", REMOVED: "del", ADDED: "ins"}


def canary_sections(view: CorpusView, against: CorpusView) -> list[Section]:
    """The canaries that changed since another version, without texts."""
    found = find(view, against)
    rows = [
        (one.step, one.doc_id, one.old.verdict, one.now.verdict, ", ".join(one.changes), _cause(one))
        for one in found
        if one.changes and one.old is not None
    ]
    text = (
        f"{len(rows):,} of {counted(len(found), 'canary', 'canaries')} changed. Canaries are a fixed sample of "
        "documents for each decision of each step, chosen by the hash of their ids."
    )
    head = ("step", "document", "verdict before", "verdict now", "changed", "cause")
    return [Section("Canaries", text, head, rows, word_columns=len(head))]


def _cause(one: Canary) -> str:
    return "an earlier step" if one.inherited else "this step"


def page(name: str, against: str | None, found: Sequence[Canary]) -> str:
    """A page with all canaries; changed ones come first."""
    total = counted(len(found), "canary", "canaries")
    intro = f"{total}, chosen by the hash of their ids for each decision of each step."
    if against is not None:
        intro = f"{sum(bool(one.changes) for one in found):,} of {total} changed since {against}."
    return render(
        Path(__file__).with_name("canaries.html"),
        title=f"Canaries of {name}",
        intro=intro,
        groups=[(title, [one for one in found if one.title == title]) for title in {one.title: None for one in found}],
        tags=TAGS,
        texts=_texts,
    )


def _texts(one: Canary) -> Iterator[tuple[str, str]]:
    """Each text of a canary with its label; texts of the other version only if they differ."""
    for version, outcome in (("", one.now), (", other version", one.old)):
        for side, text in () if outcome is None else (("Before", outcome.before), ("After", outcome.after)):
            if text is not None and (outcome is one.now or text not in (one.now.before, one.now.after)):
                kind = "markup" if text.is_markup else "text"
                label = f"{side} the step{version}: {kind}, {counted(text.characters, 'character')}"
                yield label, text.text + (" …" if text.characters > len(text.text) else "")
