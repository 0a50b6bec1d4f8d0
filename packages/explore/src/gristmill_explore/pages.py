"""The pages of the explorer. A page is a template and its values; htmx requests parts of a page."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gristmill.query.documents.documents import Row
from gristmill.query.documents.word_changes import same_words
from gristmill.query.lineage.evidence import Flag, text_of
from gristmill.query.lineage.lineage import steps_of
from gristmill.query.lineage.page_image import NoImage, page_of, page_png
from gristmill.recipe.yaml.edit import written
from gristmill_explore.app import PageGroup, is_fragment, render
from gristmill_explore.explorer import Explorer, beginning
from gristmill_explore.filters import DocumentFilter
from gristmill_explore.histogram_page import HistogramPages
from gristmill_explore.index import IndexedDocument
from gristmill_explore.whatif_page import WhatIfPages

EXCERPT = 240
"""Characters of a text in a list."""
MOST_TEXT = 100_000
"""Characters of a text on its page."""
MEMBERS = 12
"""Documents of a cluster that are listed."""
LABELLED = "doc_id in (select doc_id from labels)"
MOST_PAGE_DIGITS = 9
MOST_WORDS = 3000
"""Words of two texts that are compared: the time grows with the square."""
MOST_BODY = 1 << 16
"""Bytes of a request."""

Marked = list[tuple[str, bool]]
"""Passages of a text, and whether each is marked."""


def explorer_pages(explorer: Explorer) -> list[PageGroup]:
    """All pages of a corpus, in the order of the navigation."""
    pages = DocumentPages(explorer)
    groups = [
        PageGroup(
            "Documents",
            "/",
            [
                Route("/", pages.documents),
                Route("/document/{number:int}", pages.document),
                Route("/document/{number:int}/page/{page:int}", pages.page_image),
                Route("/document/{number:int}/label", pages.label, methods=["POST"]),
            ],
        ),
        PageGroup("Histograms", "/histograms", [Route("/histograms", HistogramPages(explorer).histogram)]),
        WhatIfPages(explorer).group(),
        PageGroup("Labels", "/labels", [Route("/labels", pages.labels)]),
    ]
    if explorer.against is not None:
        groups.append(PageGroup("Versions", "/versions", [Route("/versions", pages.versions)]))
    return groups


class DocumentPages:
    """The list, the page of a document, the labels, and the comparison of two versions."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def documents(self, request: Request) -> Response:
        """The list of documents that match a filter; for htmx, the list alone, or more of it."""
        explorer, wanted = self._explorer, DocumentFilter.of(request.query_params)
        after = request.query_params.get("after", "")
        found = explorer.find(wanted, after)
        texts = explorer.texts([one.place for one in found.documents])
        template = "list.html" if not is_fragment(request) else "_more.html" if after else "_results.html"
        return render(
            request,
            template,
            wanted=wanted,
            found=found,
            documents=[
                (one, _excerpt(row["text"], wanted.text), explorer.labels.get(one.doc_id), row)
                for one, row in zip(found.documents, texts, strict=True)
            ],
            count=explorer.count(wanted),
            index=explorer.index,
            facets=explorer.facets(),
            precisions=explorer.precisions(),
        )

    def document(self, request: Request) -> Response:
        """A document with everything that is known about it."""
        explorer, wanted = self._explorer, DocumentFilter.of(request.query_params)
        document = explorer.document(request.path_params["number"])
        row = explorer.rows([document], cuts=True)[0]
        steps = () if row.withheld else steps_of(explorer.view, *document.place)
        previous, following = explorer.beside(wanted, document)
        page = request.query_params.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < MOST_PAGE_DIGITS else 1
        is_long = sum(len(text) for text, _ in row.pieces) > MOST_TEXT and "full" not in request.query_params
        return render(
            request,
            "document.html",
            document=document,
            row=row,
            pieces=_first(row.pieces, MOST_TEXT) if is_long else row.pieces,
            is_long=is_long,
            page=None if row.withheld else page_of(explorer.view, *document.place, number),
            steps=steps,
            evidence=[self._evidence(flag) for step in steps for flag in step.flags],
            cluster=self._cluster(document, row, request.query_params.get("beside", "")),
            before=None if row.withheld else self._before(document, row),
            has_before=explorer.against is not None,
            label=explorer.labels.get(document.doc_id),
            precisions=explorer.precisions(document),
            wanted=wanted,
            previous=previous,
            following=following,
        )

    def page_image(self, request: Request) -> Response:
        """The image of a page, from the input file, with the boxes of its blocks, or why there is none."""
        explorer, number = self._explorer, request.path_params["page"]
        document = explorer.document(request.path_params["number"])
        row = explorer.rows([document])[0]
        if row.withheld:
            raise HTTPException(403, "The document is withheld.")
        page = page_of(explorer.view, *document.place, number)
        image, fault, status = "", "The document has no pages.", 404
        try:
            if page is not None:
                image = b64encode(page_png(explorer.view, document.place[0], row.fields, number)).decode()
                status = 200
        except NoImage as error:
            fault = str(error)
        return render(request, "_sheet.html", status=status, page=page, image=image, fault=fault)

    def _evidence(self, flag: Flag) -> tuple[Flag, Marked, Marked]:
        """A flag with the passage and the item; words of both are marked."""
        left, right = same_words(flag.passage, text_of(self._explorer.suites.item(flag), flag), MOST_WORDS, True)
        return flag, _joined(left), _joined(right)

    def _cluster(self, document: IndexedDocument, row: Row, beside: str) -> dict[str, Any] | None:
        """The cluster of a document, and another member next to it: the chosen one, else the kept or first one."""
        if document.cluster is None or row.withheld is not None:
            return None
        index = self._explorer.index
        members = index.documents("cluster = ?", [document.cluster], "reason nulls first, number", MEMBERS)
        if not any(one.number == document.number for one in members):
            members = [*members[: MEMBERS - 1], document]
        others = [one for one in members if one.number != document.number]
        if not others:
            return None
        other = next((one for one in others if str(one.number) == beside), others[0])
        other_row = self._explorer.rows([other])[0]
        pair = None if other_row.withheld else _differing(row.text or "", other_row.text or "")
        size = index.ask("select count(*) from documents where cluster = ?", [document.cluster])[0][0]
        return {"members": members, "other": other, "pair": pair, "size": size}

    def _before(self, document: IndexedDocument, row: Row) -> dict[str, Any] | None:
        """The document in the other version, next to this one."""
        before = self._explorer.before(document.doc_id)
        if before is None:
            return None
        pair = None if before.withheld or before.text == row.text else _differing(before.text or "", row.text or "")
        return {"row": before, "pair": pair}

    async def label(self, request: Request) -> Response:
        """Label a document. The answer has its new label and the precision of the rule that judged it."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY:
                raise HTTPException(413, "The note is too long.")
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        return await run_in_threadpool(self._label, request, form)

    def _label(self, request: Request, form: dict[str, str]) -> Response:
        number = request.path_params["number"]
        document = self._explorer.label(number, form.get("label", ""), form.get("note", ""))
        if not is_fragment(request):
            return RedirectResponse(f"/document/{number}", 303)
        return render(
            request,
            "_label.html",
            document=document,
            label=self._explorer.labels.get(document.doc_id),
            precisions=self._explorer.precisions(document),
            has_note="note" in form,
        )

    def labels(self, request: Request) -> Response:
        """The precision of every rule with labels."""
        explorer = self._explorer
        found = explorer.index.documents(f"{LABELLED} and hidden is null", [], "number", 500)
        hidden = explorer.index.documents(f"{LABELLED} and hidden is not null", [], "number", 500)
        labelled = [(one, explorer.labels.get(one.doc_id)) for one in found]
        return render(
            request,
            "labels.html",
            precisions=explorer.precisions(),
            labelled=labelled,
            hidden=hidden,
            file=explorer.labels.path,
            written=written(explorer.labels_in_recipe()),
        )

    def versions(self, request: Request) -> Response:
        """Which documents the other version judged otherwise."""
        index = self._explorer.index
        moved = index.ask(
            "select b.doc_id is null, b.step, b.reason, d.doc_id is null, d.step, d.reason, count(*) "
            "from documents d full join before b using (doc_id) where b.doc_id is null or d.doc_id is null "
            "or b.step is distinct from d.step or b.reason is distinct from d.reason group by all "
            "order by 7 desc, 2, 3, 5, 6"
        )
        counts = index.ask(
            "select (select count(*) from before), (select count(*) from before where reason is null), "
            "(select count(*) from documents), (select count(*) from documents where reason is null)"
        )[0]
        return render(request, "versions.html", moved=moved, counts=counts, index=index, other=self._explorer.against)


def _differing(one: str, other: str) -> tuple[Marked, Marked]:
    """Both texts; words that the other does not have at that place are marked."""
    left, right = ([(word, not is_same) for word, is_same in side] for side in same_words(one, other, MOST_WORDS))
    return _joined(left), _joined(right)


def _joined(side: Marked) -> Marked:
    """Neighbours that are both marked, or both not, in one piece."""
    return [("".join(word for word, _ in some), mark) for mark, some in groupby(side, lambda word: word[1])]


def _excerpt(text: str, hit: str) -> Marked:
    """The beginning of a text, or the passage around the first hit, which is marked."""
    at = text.lower().find(hit.lower()) if hit else -1
    if at < 0:
        return [(beginning(text, EXCERPT), False)]
    start, end = max(0, at - EXCERPT // 2), at + len(hit)
    stop = max(end, start + EXCERPT)
    before, after = "…" if start else "", "…" if stop < len(text) else ""
    return [(before + text[start:at], False), (text[at:end], True), (text[end:stop] + after, False)]


def _first(pieces: Iterable[tuple[str, str | None]], most: int) -> Sequence[tuple[str, str | None]]:
    found = []
    for text, step in pieces:
        found.append((text[:most], step))
        most -= len(text)
        if most <= 0:
            break
    return found
