"""The report of a finished corpus, beside another version of it where one is given."""

from pathlib import Path

from gristmill.counted import size
from gristmill.engine.publish.run_record import describe
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.query.opening import check_finished
from gristmill.report.corpus.reported import ReportedCorpus
from gristmill.report.corpus.sections import sections
from gristmill.report.page import check_charts, render

NEEDED_BY = "A report"


def make_report(view: CorpusView, against: CorpusView | None) -> str:
    """The page as HTML."""
    check_charts(NEEDED_BY)
    for one in (view, against):
        if one is not None:
            check_finished(one)
    now, before = ReportedCorpus(view), None if against is None else ReportedCorpus(against)
    return render(
        Path(__file__).with_name("report.html"),
        title=f"{view.name}: report",
        about=describe(view) if view.record is not None else view.label,
        against=None if against is None else describe(against),
        cards=_cards(now, before),
        sections=sections(now, before),
    )


def _cards(now: ReportedCorpus, before: ReportedCorpus | None) -> list[tuple[str, str, str]]:
    """Each total with its name and, beside another version, its change."""
    found = []
    for (one, many), value in now.totals.items():
        old = 0 if before is None else before.totals[one, many]
        change = f"{(value - old) / old:+.1%}" if old else ""
        shown = size(value) if one == many else f"{value:,}"
        if value or old or many != "tokens":
            found.append((shown, one if value == 1 else many, change))
    return found
