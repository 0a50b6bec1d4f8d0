"""Canaries (query/canaries.py) as a section of the report."""

from gristmill.counted import counted
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.canaries import Canary, find
from gristmill.report.corpus.reported import Section


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
