"""A folder of generated pages with gold: a WARC file, and JSON Lines with the main text of each page."""

import json
from datetime import UTC, datetime

import orjson

from demo.warc import Response, write
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import warc

PROSE = "The mill of the town stands with the river, and it is the wheel that has to turn the stone for all of them."
MENU = "<nav><a href=/a>Home</a> <a href=/b>Contact</a> <a href=/c>Imprint</a></nav>"


def page(text, head="", around=MENU):
    body = "".join(f"<p>{line}</p>" for line in text.splitlines())
    return f"<html><head><title>A page</title>{head}</head><body>{around}<article>{body}</article></body></html>"


def text_of(number):
    return "\n".join(f"{PROSE} Number {number}, line {line}." for line in range(4))


def write_archive(path, pages):
    """Write a WARC file of {url: html}, where bytes have no charset; return each record id, with angle brackets."""
    responses = [
        Response(url, html, "text/html") if isinstance(html, bytes) else Response(url, html.encode())
        for url, html in pages.items()
    ]
    write(path, responses, datetime(2026, 11, 1, tzinfo=UTC))
    ids = {}
    for record in warc.read(Piece(str(path), path.name), warc.Config()):
        meta = orjson.loads(record.meta)
        if meta["record_type"] == "response":
            ids[record.url] = f"<{meta['record_id']}>"
    return ids


def write_gold(folder, sets=("news", "blogs", "tool-weakgold", "marked"), languages=("en", None), pages=12):
    """Write pages that each have their own domain, spread over sets; those of the last set have segments."""
    (folder / "warc").mkdir(parents=True)
    (folder / "gold").mkdir()
    urls = {f"https://www.mill{number}.example/{number}": page(text_of(number)) for number in range(pages)}
    ids = write_archive(folder / "warc" / "pages.warc.gz", urls)
    rows = []
    for number, url in enumerate(urls):
        row = {
            "warc_record_id": ids[url],
            "set": sets[number % len(sets)],
            "lang": languages[number % len(languages)],
            "url": url,
        }
        if row["set"] == sets[-1]:
            row |= {"must_have": [f"Number {number}, line 2"], "must_not": ["Imprint"]}
        else:
            row |= {"text": text_of(number)}
        rows.append(row)
    write_rows(folder, rows)
    return rows


def write_rows(folder, rows):
    (folder / "gold" / "extraction_gold.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
