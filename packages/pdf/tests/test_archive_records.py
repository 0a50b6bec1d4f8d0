"""PDF files among the records of a web archive: `bodies: {pdf: {}}`."""

import gzip
from functools import partial
from pathlib import Path

import orjson
import pytest
from tests.stages.ingest.archives import http, record
from tests.stages.ingest.archives import rows as rows_of

from gristmill.stages.contract import OtherStage
from gristmill_pdf import reader
from gristmill_pdf.layout.child import CONTROL, CONTROL_TEXT

rows = partial(rows_of, bodies={"pdf": OtherStage(module=reader.__name__, config=reader.Config())})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.mark.parametrize("mime", ["application/pdf", "application/octet-stream", "text/html", None])
def test_a_pdf_file_is_kept_as_text_under_any_media_type(path: Path, mime: str | None) -> None:
    """PDF files are recognised by their first bytes; they keep the facts of the response, and get those of the file."""
    (row,) = rows(record(http(CONTROL, mime=mime)), path)
    assert (row.drop, row.text, row.content_type) == (None, CONTROL_TEXT, "application/pdf")
    assert orjson.loads(row.meta or "")["http_status"] == 200
    assert [one["start"] for one in row.more[0]] == [0]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(record(http(b"\r\n " + CONTROL)), id="white space before it, as text/html"),
        pytest.param(
            record(http(gzip.compress(CONTROL, mtime=0), "Content-Encoding: gzip", mime="application/octet-stream")),
            id="compressed, under another type",
        ),
        pytest.param(
            record(
                http(b"%x\r\n%s\r\n0\r\n\r\n" % (len(CONTROL), CONTROL), "Transfer-Encoding: chunked", mime="image/png")
            ),
            id="in chunks, under another type",
        ),
        pytest.param(record(CONTROL), id="a response without its header"),
        pytest.param(record(CONTROL, kind="resource", mime="application/pdf"), id="a resource"),
        pytest.param(
            record(CONTROL, kind="resource", mime="application/octet-stream"), id="a resource of another type"
        ),
    ],
)
def test_a_pdf_file_is_found_behind_encodings_and_lies(path: Path, data: bytes) -> None:
    """It is read as PDF, and not lost as `not_text` or decoded as a page."""
    (row,) = rows(data, path)
    assert (row.drop, row.text, row.content_type) == (None, CONTROL_TEXT, "application/pdf")


def test_a_pdf_file_that_the_crawler_cut_says_so_beside_its_reason(path: Path) -> None:
    """Without its end, nothing says which object is the first."""
    data = CONTROL[: CONTROL.index(b"trailer")]
    (row,) = rows(record(http(data, mime="application/pdf"), "WARC-Truncated: length"), path)
    assert (row.drop, orjson.loads(row.meta or "")["truncated"]) == ("corrupt_pdf", "length")


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (record(http(b"%PDF-1.4 \x00\x01")), "corrupt_pdf", "Failed to load document (PDFium: Data format error)."),
        (record(http(b"<p>moved", mime="application/pdf")), "not_pdf", "the file begins with '<p>moved'"),
        (record(http(b" \r\n", mime="application/pdf")), "empty_body", None),
    ],
)
def test_a_body_that_is_no_pdf_file_has_a_reason(path: Path, data: bytes, reason: str, detail: str | None) -> None:
    """Whatever its media type promises."""
    (row,) = rows(data, path)
    assert (row.drop, row.detail, row.text) == (reason, detail, None)
