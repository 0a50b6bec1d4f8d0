"""The report as one HTML file: no script, no network, every text escaped."""

import importlib
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gristmill.counted import size
from gristmill.engine.publish.run_record import describe
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.printable import one_line
from gristmill.query.opening import check_finished
from gristmill.report.corpus.canaries import canary_sections
from gristmill.report.corpus.sections import ReportPrices, Section, sections, totals

STYLE = Path(__file__).parent.with_name("page.css")
LIBRARIES = ("jinja2", "vl_convert")
NOT_IN_SVG = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
TEMPLATE = Path(__file__).with_name("report.html")


def check_installed() -> None:
    """Raise UserError if the libraries of the extra are not installed."""
    if not all(map(importlib.util.find_spec, LIBRARIES)):
        raise UserError(
            "A report needs Jinja and vl-convert, which are not installed, so nothing was done. "
            "Run: pip install 'gristmill[report]'"
        )


def make_report(view: CorpusView, against: CorpusView | None, prices: ReportPrices) -> str:
    """The report of a finished corpus, beside another version of it where one is given."""
    check_installed()
    jinja2, vl_convert = (importlib.import_module(name) for name in LIBRARIES)
    for one in (view, against):
        if one is not None:
            check_finished(one)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["one_line"] = one_line
    found = [*sections(view, against, prices), *canary_sections(view, against)]
    text: str = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        title=f"{view.name}: report",
        about=describe(view) if view.record is not None else view.label,
        against=None if against is None else describe(against),
        cards=_cards(view, against),
        sections=[(section, _svg(vl_convert, number, section)) for number, section in enumerate(found)],
        style=STYLE.read_text("utf-8"),
    )
    return text


def _cards(view: CorpusView, against: CorpusView | None) -> list[tuple[str, str, str]]:
    """Each total with its name and, beside another version, its change."""
    now = totals(view)
    before: Mapping[str, int] = {} if against is None else totals(against)
    return [
        (name, size(value) if name.startswith("bytes") else f"{value:,}", _change(value, before.get(name)))
        for name, value in now.items()
        if value or name != "tokens"
    ]


def _change(now: int, before: int | None) -> str:
    if not before:
        return ""
    return f"{(now - before) / before:+.1%}"


def _svg(vl_convert: Any, number: int, section: Section) -> str:
    """The chart as SVG; its ids are made distinct, since they share one page."""
    if section.chart is None:
        return ""
    chart = _printable(section.chart)
    draw = vl_convert.vega_to_svg if "/vega/" in chart["$schema"] else vl_convert.vegalite_to_svg
    found: str = draw(chart)
    return re.sub(r'(id="|url\(#|href="#)', rf"\1c{number}-", found)


def _printable(found: Any) -> Any:
    """The specification with printable texts: names in charts come from data, and SVG refuses some characters."""
    if isinstance(found, str):
        return NOT_IN_SVG.sub("\ufffd", one_line(found))
    if isinstance(found, dict):
        return {_printable(key): _printable(value) for key, value in found.items()}
    return [_printable(one) for one in found] if isinstance(found, list | tuple) else found
