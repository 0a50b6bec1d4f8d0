"""Pages as one HTML file, from Jinja templates and charts: no script, no network, every text escaped.

A template extends `base.html` and draws a specification of `charts.py` with `chart(spec)`. Text from data cannot
reorder or hide the page around it, whatever the template does.
"""

import importlib.util
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
from markupsafe import Markup

from gristmill.errors import UserError
from gristmill.install_command import install_extra
from gristmill.printable import one_line, printable
from gristmill.report.charts import CELL, Spec

FOLDER = Path(__file__).parent
TABLE_PAGE = FOLDER / "table.html"
"""A page with one table, which is markup."""
SVG = "http://www.w3.org/2000/svg"
NOT_IN_SVG = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def check_charts(what: str) -> None:
    """Raise UserError if the library that draws charts is not installed; `what` needs it."""
    if importlib.util.find_spec("vl_convert") is None:
        raise UserError(
            f"{what} needs vl-convert, which is not installed, so nothing was done. Run: {install_extra('report')}"
        )


def render(template: Path, **values: object) -> str:
    """The page of a template."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(FOLDER),
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    style = Markup((FOLDER / "page.css").read_text("utf-8"))
    environment.globals.update(style=style, chart=_drawing(), cells=cells)
    return environment.from_string(template.read_text("utf-8")).render(values)


def _drawing() -> Callable[[Spec], Markup]:
    numbers = count()

    def chart(spec: Spec) -> Markup:
        """The chart; its ids are made distinct, since all charts share one page."""
        return _inline(re.sub(r'(id="|url\(#|href="#)', rf"\1c{next(numbers)}-", draw(spec)))

    return chart


def draw(spec: Spec) -> str:
    """The chart as SVG."""
    import vl_convert  # an extra, and slow to load

    spec = _printable(spec)
    convert = vl_convert.vega_to_svg if "/vega/" in spec["$schema"] else vl_convert.vegalite_to_svg
    found: str = convert(spec)
    return found


def cells(spec: Spec) -> list[Markup]:
    """The facets of a chart, each as its own SVG, so that a page can arrange them."""
    ElementTree.register_namespace("", SVG)
    box = f"-1 -1 {CELL[0] + 2} {CELL[1] + 2}"
    found = []
    for facet in ElementTree.fromstring(draw(spec)).findall(f".//{{{SVG}}}g[@class='mark-group role-scope cell']/*"):
        facet.attrib.pop("transform", None)
        image = ElementTree.Element(f"{{{SVG}}}svg", {"viewBox": box, "fill": "none"})
        image.append(facet)
        found.append(_inline(ElementTree.tostring(image, encoding="unicode")))
    return found


def _inline(svg: str) -> Markup:
    """An image within a page needs no namespaces."""
    return Markup(re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg))


def _printable(found: object) -> Any:
    """The specification with printable texts: names in charts come from data, and SVG refuses some characters."""
    if isinstance(found, str):
        return NOT_IN_SVG.sub("\ufffd", one_line(found))
    if isinstance(found, dict):
        return {_printable(key): _printable(value) for key, value in found.items()}
    return [_printable(one) for one in found] if isinstance(found, list | tuple) else found
