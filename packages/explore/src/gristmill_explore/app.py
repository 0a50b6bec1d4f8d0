"""The application: groups of pages behind one guard, with shared templates and files.

`create_app` knows nothing about a corpus, so that pages of a finished corpus and pages of a run in progress are served
in the same way: each is a `PageGroup` with its routes and its entry in the navigation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from gristmill.counted import number, size, value_text
from gristmill.errors import UserError
from gristmill.printable import one_line, printable
from gristmill.report.charts import short_number
from gristmill.store.store import CorruptPart
from gristmill_explore.security import LocalOnly

HERE = Path(__file__).parent
GONE = 410
"""The status of a page whose files were removed."""
MOST_ITEMS = 12
"""Items of a list that are shown."""


@dataclass(frozen=True)
class PageGroup:
    """Pages with an entry in the navigation."""

    title: str
    path: str
    """The path of the first page."""
    routes: Sequence[BaseRoute]


def create_app(title: str, groups: Sequence[PageGroup], token: str, port: int) -> Starlette:
    """The application for one port. `title` names the corpus on every page."""
    app = Starlette(
        routes=[
            *(route for group in groups for route in group.routes),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(LocalOnly, token=token, port=port)],
        exception_handlers={UserError: _show_fault, HTTPException: _show_fault, CorruptPart: _show_fault},
    )
    app.state.templates = _templates()
    app.state.shared = {"corpus": title, "nav": [(group.title, group.path) for group in groups]}
    return app


def render(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """A page from a template. Every value is escaped; text from data goes through `shown` or `one_line` as well."""
    state = request.app.state
    text = state.templates.get_template(template).render(**state.shared, path=request.url.path, **values)
    return HTMLResponse(text, status)


def is_fragment(request: Request) -> bool:
    """Whether htmx requests a part of a page."""
    return "hx-request" in request.headers


def _templates() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # also what an address says
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"one_line": _line, "shown": printable, "fault_text": fault_text, "plain": _plain}
    environment.filters |= {"size": size, "number": number, "short_number": short_number}
    return environment


def _plain(value: object) -> str:
    """A value of a column: numbers with six digits, and the beginning of a long list."""
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, list | tuple) and value:
        more = f", … ({len(value):,} in all)" if len(value) > MOST_ITEMS else ""
        return ", ".join(map(_plain, value[:MOST_ITEMS])) + more
    return value_text(value)


def _line(value: object) -> str:
    return one_line(str(value))


async def _show_fault(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else GONE if isinstance(error, CorruptPart) else 400
    message = error.detail if isinstance(error, HTTPException) else fault_text(error)
    return await run_in_threadpool(render, request, "fault.html", status=status, message=message)


def fault_text(fault: Exception) -> str:
    """The message for a fault. Files may be removed or damaged while pages are served."""
    if not isinstance(fault, CorruptPart):
        return str(fault)
    return (
        f"Part {fault.part_hash[:12]} of the store {fault.fact}. Files of this version were removed or damaged after "
        "the explorer was started, for example by gristmill gc. Stop the explorer and start it again: it opens the "
        "corpus as it is now, or says how to make the missing files again."
    )
