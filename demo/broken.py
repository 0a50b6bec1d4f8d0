"""Defects in the delivery of pages: status codes, encodings, broken bytes, empty, huge and deep bodies, cut members."""

import gzip
import struct
import zlib
from dataclasses import replace

import brotli

from demo.articles import Article, Block
from demo.crawl import Crawl
from demo.languages import first_sentence, foreign
from demo.pages import SITES
from demo.warc import Response, chunked

HUGE_BYTES = 20_000_000
DEEP_TAGS = 50_000
PRIVATE_HOST = next(iter(SITES))
"""The host whose robots.txt keeps CCBot out of /internal/."""

_BAD_BYTES = (b"\xff", b"\xc3 ", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82 ")
"""Never valid; a cut two-byte sequence; a surrogate; a five-byte form; a cut three-byte sequence."""
_MARK = "\ue000"


def plant_broken(crawl: Crawl) -> None:
    _http(crawl)
    _robots(crawl)
    _bad_utf8(crawl)
    _encoded(crawl)
    _charsets(crawl)
    for number in range(crawl.number(6)):
        body = (b"", b" \r\n\r\n ")[number % 2]
        snapshot = crawl.next_snapshot()
        crawl.plant("empty_body", Response(f"https://{PRIVATE_HOST}/blank/{number}.html", body), snapshot)
    entries = "".join(
        f"<p>Entry {i} of the visitor book says that the weather was fair and the tea was hot.</p>\n"
        for i in range(HUGE_BYTES // 88 + 1)
    )
    huge = f"<html><head><title>Visitor book</title></head><body>{entries}".encode()[:HUGE_BYTES]
    crawl.plant("huge_page", Response(f"https://{PRIVATE_HOST}/visitors.html", huge), crawl.next_snapshot())
    deep = b"<html><body>" + b"<div>" * DEEP_TAGS + b"The bottom of the well." + b"</div>" * DEEP_TAGS
    crawl.plant("deep_page", Response(f"https://{PRIVATE_HOST}/well.html", deep), crawl.next_snapshot())


def cut_page(crawl: Crawl, snapshot: str) -> Response:
    """A page of which only half the compressed bytes reach the file. Its location in the file is not known yet."""
    article = crawl.reserve.pop()
    return Response(crawl.url(article), crawl.html(article, snapshot).encode(), cut=0.5)


def _http(crawl: Crawl) -> None:
    for number in range(crawl.number(10)):
        url = f"https://{PRIVATE_HOST}/gone/{number}.html"
        body = b"<html><body><h1>Not Found</h1><p>There is no such page on this server.</p></body></html>"
        crawl.plant("http_404", Response(url, body, status="404 Not Found"), crawl.next_snapshot())
        if number % 2 == 0:
            url = f"http://{PRIVATE_HOST}/old/{number}.html"
            to = ("Location", f"https://{PRIVATE_HOST}/library/")
            moved = Response(url, b"", status="301 Moved Permanently", headers=(to,))
            crawl.plant("redirect", moved, crawl.next_snapshot())
            image = Response(f"https://{PRIVATE_HOST}/img/{number}.png", _png(8 + number), "image/png")
            crawl.plant("image", image, crawl.next_snapshot())


def _robots(crawl: Crawl) -> None:
    for snapshot in crawl.pages:
        for host in SITES:
            rules = "User-agent: CCBot\nDisallow: /internal/\n\n" if host == PRIVATE_HOST else ""
            body = f"{rules}User-agent: *\nDisallow: /search\nCrawl-delay: 2\n".encode()
            crawl.plant("robots_txt", Response(f"https://{host}/robots.txt", body, "text/plain"), snapshot)
    for _ in range(crawl.number(6)):
        article, snapshot = crawl.reserve.pop(), crawl.next_snapshot()
        url = f"https://{PRIVATE_HOST}/internal/{article.name}.html"
        crawl.plant("robots_disallowed", Response(url, crawl.html(article, snapshot).encode()), snapshot)


def _phrase(article: Article) -> str:
    """The last eight words of the longest paragraph."""
    return " ".join(max((b.text for b in article.blocks if b.tag == "p"), key=len).split()[-8:])


def _bad_utf8(crawl: Crawl) -> None:
    for number in range(crawl.number(5)):
        article, snapshot = crawl.reserve.pop(), crawl.next_snapshot()
        prose = [i for i, block in enumerate(article.blocks) if block.tag == "p"]
        at = max(prose, key=lambda i: len(article.blocks[i].text))
        words = article.blocks[at].text.split()
        text = " ".join([*words[:2], _MARK, *words[2:5], _MARK, *words[5:]])
        page = replace(article, blocks=(*article.blocks[:at], Block("p", text), *article.blocks[at + 1 :]))
        body = crawl.html(page, snapshot).encode().replace(_MARK.encode(), _BAD_BYTES[number % len(_BAD_BYTES)])
        crawl.plant("few_invalid_bytes", Response(crawl.url(article), body), snapshot, text=_phrase(article))
    rng = crawl.rng("bytes")
    for number in range(crawl.number(4)):
        note, noise = "noise", bytes(rng.choices(range(0x80, 0x100), k=6000))
        if number % 2:
            note, noise = "lost bytes", _thinned(crawl, number)
        body = b"<html><head><title>Archive</title></head><body><p>" + noise + b"</p></body></html>"
        url = f"https://{PRIVATE_HOST}/archive/{number}.html"
        crawl.plant("mostly_invalid_utf8", Response(url, body), crawl.next_snapshot(), note=note)


def _thinned(crawl: Crawl, number: int) -> bytes:
    """Cyrillic UTF-8 that lost every third byte: six characters in ten can no longer be recognised."""
    text = " ".join(block.text for block in foreign("ru", crawl.rng("thinned", number), number).blocks).encode()
    return bytes(byte for i, byte in enumerate(text) if i % 3)


def _encoded(crawl: Crawl) -> None:
    """Bodies as servers send them: in chunks, or compressed, or both."""
    coded = (("chunked", ""), ("", "gzip"), ("", "br"), ("chunked", "gzip"), ("", "deflate"))
    for number in range(max(len(coded), crawl.number(10))):
        transfer, content = coded[number % len(coded)]
        article, snapshot = crawl.reserve.pop(), crawl.next_snapshot()
        body = crawl.html(article, snapshot).encode()
        match content:
            case "gzip":
                body = gzip.compress(body, mtime=0)
            case "br":
                body = brotli.compress(body, quality=5)
            case "deflate":
                body = zlib.compress(body)
        body = chunked(body) if transfer else body
        headers = (("Transfer-Encoding", transfer), ("Content-Encoding", content))
        response = Response(crawl.url(article), body, headers=tuple((n, v) for n, v in headers if v))
        note = "+".join(filter(None, (transfer, content)))
        crawl.plant("encoded_body", response, snapshot, text=_phrase(article), note=note)


def _charsets(crawl: Crawl) -> None:
    """Encodings before UTF-8, declared by HTTP, declared by a meta element, and not declared at all."""
    rng = crawl.rng("charsets")
    number = 1000
    for lang, codec in (("fr", "iso-8859-1"), ("ja", "shift_jis"), ("ru", "windows-1251")):
        for declared in ("http", "meta", "nowhere"):
            article, snapshot = foreign(lang, rng, number), crawl.next_snapshot()
            page = crawl.html(article, snapshot, lang, codec if declared == "meta" else None)
            content_type = f"text/html; charset={codec}" if declared == "http" else "text/html"
            response = Response(crawl.url(article), page.encode(codec, "xmlcharrefreplace"), content_type)
            crawl.plant("charset", response, snapshot, text=first_sentence(article), note=f"{codec}, told {declared}")
            number += 1


def _png(side: int) -> bytes:
    """A grey square."""
    rows = (b"\x00" + b"\x80" * side) * side
    chunks = (b"IHDR", struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    coded = (
        struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data)) for tag, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)
