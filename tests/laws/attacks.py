# ruff: noqa: E501 (hostile inputs are clearer on one line)
"""Inputs that once made, or might make, a reader do more work than the length of its input justifies.

Each row names the reader, the input and its size. Each `make` returns an input of about `size` bytes (decoded, if it is
compressed). Add a row for every new idea.
"""

import base64
import bz2
import gzip
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

import brotli
import pyarrow as pa
import pyarrow.parquet as pq
from backports import zstd
from lz4 import frame

from gristmill_pdf.layout.child import CONTROL

Make = Callable[[int], bytes]


class Attack(NamedTuple):
    reader: str
    """A function in test_work_is_linear.READERS."""
    what: str
    make: Make
    size: int = 1 << 11
    """The size of the smaller input; the larger one is four times as long."""


def fill(unit: bytes, before: bytes = b"", after: bytes = b"") -> Make:
    """A prefix, as many copies of a unit as fit, and a suffix."""
    return lambda size: before + unit * (size // len(unit)) + after


def numbered(pattern: str, before: str = "", after: str = "") -> Make:
    """Like `fill`, but the unit contains a number, {n}, so no two units are equal."""

    def make(size: int) -> bytes:
        count = size // len(pattern)
        return (before + "".join(pattern.replace("{n}", str(n)) for n in range(count)) + after).encode()

    return make


def packed(pack: Callable[[bytes], bytes], make: Make, times: int = 1) -> Make:
    """The output of `make`, compressed as one frame. `make` gets a larger size because its output shrinks."""
    return lambda size: pack(make(size * times))


def frames(pack: Callable[[bytes], bytes], unit: bytes) -> Make:
    """As many copies of one compressed frame as fit."""
    return fill(pack(unit))


def lz4(data: bytes) -> bytes:
    return frame.compress(data)


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def stored(unit: bytes, length: int) -> bytes:
    """A gzip header and a stored block that is longer than the unit, so it overlaps the units after it."""
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0" + struct.pack("<HH", length, length ^ 0xFFFF) + unit


HEAD = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\n"
PAGE = HEAD + b"Content-Length: 9\r\n\r\nHTTP/1.0 \r\n\r\n"
ARC = b"http://a.example/ 1.2.3.4 20010203040506 text/html 3\nabc\n"


def response(fields: bytes, make: Make) -> Make:
    """A record with an HTTP response whose body grows."""

    def record(size: int) -> bytes:
        block = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n" + make(size)
        return HEAD + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"

    return record


def header(make: Make) -> Make:
    """An HTTP header that grows."""
    return lambda size: response(b"Content-Type: text/html\r\n" + make(size), lambda _: b"<p>x")(0)


def lying(size: int) -> bytes:
    """Records in one frame; the declared length of each one ends one byte after everything read so far."""
    parts: list[bytes] = []
    while sum(map(len, parts)) < size:
        parts.append(b"WARC/1.0\r\nContent-Length: %d\r\n\r\n" % (size + len(parts)))
    return b"".join(parts)


def parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def merges(size: int) -> bytes:
    """Each mapping merges the previous one twice."""
    lines = [f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}], k{n}: 1}}" for n in range(1, size // 45)]
    return "\n".join(["m0: &m0 {k: 1}", *lines, ""]).encode()


def chain(size: int) -> bytes:
    """Each mapping merges the previous one."""
    lines = [f"m{n}: &m{n} {{<<: *m{n - 1}, k{n}: 1}}" for n in range(1, size // 30)]
    return "\n".join(["m0: &m0 {k: 1}", *lines, ""]).encode()


def aliases(size: int) -> bytes:
    lines = [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, size // 28)]
    return "\n".join(["a0: &a0 [x]", *lines, ""]).encode()


def shared(size: int) -> bytes:
    """One long list with many aliases."""
    half = size // 12
    return ("l: &l [" + "1, " * half + "]\n" + "".join(f"a{n}: *l\n" for n in range(half // 4))).encode()


RECIPE = "recipe: x\nsources:\n  a: {kind: text, read: {format: jsonl, paths: [in]}}\nsteps: [extract]\n"
READ = "recipe: x\nsteps: [extract]\nsources:\n  a: {kind: text, read: {format: jsonl, paths: ["


def vocabulary(size: int) -> bytes:
    tokens = {chr(0x100 + n % 50) + str(n): n for n in range(size // 12)}
    return json.dumps({"model": {"type": "BPE", "vocab": tokens, "merges": []}}).encode()


def ranks(size: int) -> bytes:
    """All single bytes, then one token that is as long as the file."""
    singles = [base64.b64encode(bytes([n])) + b" %d\n" % n for n in range(256)]
    return b"".join(singles) + base64.b64encode(b"a" * size) + b" 256\n"


def manifest(size: int) -> bytes:
    groups = [{"name": f"g{n}", "samples": 1, "shards": []} for n in range(size // 50)]
    return json.dumps({"format": "gristmill manifest", "format_version": 1, "groups": groups}).encode()


PDF_HEAD = CONTROL[: CONTROL.index(b"(The mill")]
PDF_TAIL = CONTROL[CONTROL.index(b" Tj ET") + len(b" Tj") :]

ATTACKS = [
    # Archives: headers that never end or that start repeatedly.
    Attack("warc", "headers without end", fill(b"WARC/1.0\r\nA:")),
    Attack("warc", "versions only", fill(b"WARC/1.0\r\n")),
    Attack("warc", "the first letters", fill(b"WARC/")),
    Attack("warc", "headers without a length", fill(b"WARC/1.0\r\nA:\r\n\r\n")),
    Attack("warc", "empty records", fill(b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n")),
    Attack("warc", "lengths beyond the file", fill(b"WARC/1.0\r\nContent-Length: 999999\r\n\r\n")),
    Attack("warc", "lengths that are one too small", fill(PAGE.replace(b": 9", b": 8"))),
    Attack("warc", "lengths that reach over the next", fill(PAGE.replace(b": 9", b": 400"))),
    Attack("warc", "a header of short lines", fill(b"a\n", b"WARC/1.0\r\nA: b\r\n")),
    Attack("warc", "a header of folded lines", fill(b" a\r\n", b"WARC/1.0\r\nA: b\r\n", b"Content-Length: 0\r\n\r\n")),
    Attack("warc", "many fields", numbered("A{n}: b\r\n", "WARC/1.0\r\n", "Content-Length: 0\r\n\r\n")),
    Attack("warc", "empty lines", fill(b"\r\n", PAGE)),
    Attack("warc", "empty lines with a space", fill(b"\n \n", PAGE)),
    Attack("warc", "no archive", fill(b"x")),
    Attack("warc", "ARC records", fill(ARC)),
    Attack("warc", "ARC headers only", fill(b"http://a.example/ 1.2.3.4 20010203040506 text/html 99999999\n")),
    Attack("warc", "ARC addresses", fill(b" 1.2.3.4 20010203", b"http:a", b"\n")),
    Attack("warc", "ARC schemes", fill(b"\nhttp:")),
    Attack("warc_gz", "newlines", packed(gz, fill(b"\n"), 32)),
    Attack("warc_gz", "newlines behind a page", packed(gz, fill(b"\n", PAGE), 32)),
    Attack("warc_gz", "headers without end", packed(gz, fill(b"WARC/1.0\r\nA:"))),
    Attack("warc_gz", "lengths that end just beyond", packed(gz, lying, 4)),
    Attack("warc_gz", "lengths beyond the file", packed(gz, fill(b"WARC/1.0\r\nContent-Length: 999\r\n\r\n")), 1 << 12),
    Attack("warc_gz", "zeros", packed(gz, fill(b"\0"), 32)),
    Attack("warc_gz", "ARC headers only", packed(gz, fill(b"http://a.b/ 1.2.3.4 20010203040506 text/html 9\n"), 4)),
    *(
        Attack("warc_gz", f"gzip magic with flags {flags}", fill(b"\x1f\x8b\x08" + flags))
        for flags in (b"", b"\x04", b"\x08", b"\0\0\0\0\0\0\0", b"\x08\0\0\0\0\0\0a")
    ),
    Attack("warc_gz", "zstd magic", fill(b"\x28\xb5\x2f\xfd\x04")),
    Attack("warc_gz", "zstd magic of a large window", fill(b"\x28\xb5\x2f\xfd\x04\x88\x01\xff\xff")),
    Attack("warc_gz", "lz4 magic", fill(b"\x04\x22\x4d\x18\x60\x40\x82")),
    Attack("warc_gz", "skippable frames", fill(b"\x50\x2a\x4d\x18\0\0\0\0")),
    Attack("warc_gz", "members of nothing", frames(gz, b"")),
    Attack("warc_gz", "members of a byte", frames(gz, b"x")),
    Attack("warc_gz", "members of a newline", frames(gz, b"\n")),
    Attack("warc_gz", "members of empty records", frames(gz, b"WARC/1.0\r\nContent-Length: 0\r\n\r\n")),
    Attack("warc_gz", "members of a header", frames(gz, b"WARC/1.0\r\nA:")),
    Attack("warc_gz", "a record in many members", fill(gz(b"x"), gz(HEAD + b"Content-Length: 999\r\n\r\n"))),
    Attack("warc_gz", "records that want the next members", frames(gz, HEAD + b"Content-Length: 999\r\n\r\n")),
    Attack("warc_gz", "members that break off", fill(gz(PAGE * 3)[:-9])),
    Attack("warc_gz", "members with a wrong checksum", fill(gz(PAGE)[:-8] + b"12345678")),
    Attack("warc_gz", "stored blocks over the rest", fill(stored(b"WARC/1.0\r\nA:", 27 * 10))),
    Attack("warc_gz", "stored blocks over all", fill(stored(b"WARC/1.0\r\nA:", 27 * 2000))),
    Attack("warc_gz", "frames of zstd", frames(zst, b"")),
    Attack("warc_gz", "frames of zstd with a byte", frames(zst, b"x")),
    Attack("warc_gz", "frames of lz4", frames(lz4, b"x")),
    Attack("warc_gz", "zstd frames that break off", fill(zst(PAGE)[:-3])),
    Attack("warc_gz", "lz4 frames that break off", fill(lz4(PAGE)[:-3])),
    Attack("warc_gz", "newlines in zstd", packed(zst, fill(b"\n"), 32)),
    Attack("warc_gz", "newlines in lz4", packed(lz4, fill(b"\n"), 32)),
    Attack("stretches", "one gzip member", packed(gz, fill(PAGE))),
    Attack("stretches", "a member for each page", frames(gz, PAGE)),
    Attack("stretches", "gzip magic", fill(b"\x1f\x8b\x08")),
    Attack("stretches", "frames that break off", fill(gz(PAGE * 3)[:-9])),
    Attack("stretches_jsonl", "one line", fill(b"x", b'{"text": "')),
    Attack("stretches_jsonl", "short lines", fill(b'{"text": "x"}\n')),
    # HTTP
    Attack("warc", "chunks of a byte", response(b"Transfer-Encoding: chunked\r\n", fill(b"1\r\nx\r\n"))),
    Attack("warc", "chunks with extensions", response(b"Transfer-Encoding: chunked\r\n", fill(b"1;aaaa\r\nx\r\n"))),
    Attack("warc", "chunk sizes only", response(b"Transfer-Encoding: chunked\r\n", fill(b"1"))),
    Attack("warc", "gzip members in a body", response(b"Content-Encoding: gzip\r\n", frames(gz, b""))),
    Attack("warc", "deflate in a body", response(b"Content-Encoding: deflate\r\n", fill(zlib.compress(b"")))),
    Attack("warc", "brotli zeros", response(b"Content-Encoding: br\r\n", packed(brotli.compress, fill(b"x"), 64))),
    Attack("warc", "zstd frames in a body", response(b"Content-Encoding: zstd\r\n", frames(zst, b""))),
    Attack("warc", "robots fields", header(fill(b"X-Robots-Tag: a\r\n"))),
    Attack("warc", "many HTTP fields", header(numbered("A{n}: b\r\n"))),
    Attack("warc", "encodings", header(lambda size: b"Content-Encoding: " + b"gzip," * (size // 5) + b"\r\n")),
    Attack("warc", "meta tags", response(b"Content-Type: text/html\r\n", fill(b"<meta "))),
    Attack("warc", "comments", response(b"Content-Type: text/html\r\n", fill(b"<!--"))),
    Attack("warc", "broken UTF-8", response(b"Content-Type: text/html\r\n", fill(b"\xe2\x82"))),
    Attack("warc", "escapes of ISO 2022", response(b"Content-Type: text/html\r\n", fill(b"\x1b$B"))),
    # Lines and streams
    Attack("jsonl", "newlines", fill(b"\n")),
    Attack("jsonl", "newlines in gzip", packed(gz, fill(b"\n"), 32)),
    Attack("jsonl", "blank lines in gzip", packed(gz, fill(b" \r\n"), 32)),
    Attack("jsonl", "spaces in gzip", packed(gz, fill(b" "), 32)),
    Attack("jsonl", "opened objects", fill(b'{"a":')),
    Attack("jsonl", "opened lists", fill(b"[")),
    Attack("jsonl", "opened lists by line", fill(b"[\n")),
    Attack("jsonl", "a string without end", fill(b"x", b'{"text": "')),
    Attack("jsonl", "quotes", fill(b'\\"', b'{"a": NaN, "text": "')),
    Attack("jsonl", "lone surrogates", fill(b"\\ud800", b'{"text": "', b'"}')),
    Attack("jsonl", "lone surrogates by line", fill(b'{"text": "\\ud800"}\n')),
    Attack("jsonl", "not numbers", fill(b"NaN,", b'{"text": "x", "a": [', b"1]}")),
    Attack("jsonl", "a long number", fill(b"9", b'{"text": "x", "a": ', b"}")),
    Attack("jsonl", "one name again and again", fill(b'"a":1,', b'{"text": "x",', b'"a":1}')),
    Attack("jsonl", "gzip members of nothing", frames(gz, b"")),
    Attack("jsonl", "gzip members of a line", frames(gz, b'{"text": "x"}\n')),
    Attack("jsonl", "gzip members and zeros", fill(gz(b"\n") + bytes(40)), 1 << 13),
    Attack("jsonl", "zeros behind gzip", fill(b"\0", gz(b'{"text": "x"}\n'))),
    Attack("jsonl", "gzip headers of a long name", fill(b"a", gz(b"")[:3] + b"\x08\0\0\0\0\0\xff")),
    Attack("jsonl", "zstd frames of nothing", frames(zst, b"")),
    Attack("jsonl", "zstd skippable frames", fill(b"\x50\x2a\x4d\x18\0\0\0\0", zst(b""))),
    Attack("jsonl", "zstd empty blocks", fill(b"\0\0\0", b"\x28\xb5\x2f\xfd\0\x58")),
    Attack("jsonl", "bzip2 streams of nothing", frames(bz2.compress, b"")),
    Attack("jsonl", "bzip2 streams of a line", frames(bz2.compress, b'{"text": "x"}\n')),
    Attack("jsonl", "xz streams of nothing", frames(lzma.compress, b"")),
    Attack("jsonl", "zeros behind xz", fill(b"\0", lzma.compress(b""))),
    Attack("json", "opened lists", fill(b"[")),
    Attack("json", "opened objects", fill(b'{"a":')),
    Attack("json", "closed lists", fill(b"]", b"[")),
    Attack("json", "objects", fill(b'{"text": "x"},\n', b"[")),
    Attack("json", "empty objects", fill(b"{}", b"[")),
    Attack("json", "commas", fill(b",", b"[")),
    Attack("json", "newlines in gzip", packed(gz, fill(b"\n", b"["), 32)),
    Attack("json", "bare words", fill(b"x ", b"[")),
    Attack("json", "one bare word", fill(b"x", b"[")),
    Attack("json", "quotes", fill(b'"', b"[")),
    Attack("json", "backslashes in a string", fill(b"\\", b'["')),
    Attack("json", "escaped quotes", fill(b'\\"', b'[{"a": NaN, "text": "')),
    Attack("json", "a string without end", fill(b"x", b'[{"text": "')),
    Attack("json", "gzip members of an element", frames(gz, b'{"text": "x"}')),
    Attack("csv", "records", fill(b"x,y\n", b"text,b\n")),
    Attack("csv", "newlines in gzip", packed(gz, fill(b"\n", b"text,b\n"), 4)),
    Attack("csv", "quotes", fill(b'"', b"text,b\n")),
    Attack("csv", "opened quotes by line", fill(b'"\n', b"text,b\n")),
    Attack("csv", "a quote without end", fill(b"x\n", b'text,b\n"')),
    Attack("csv", "records that never end", fill(b'"a","b\n', b"text,b\n")),
    Attack("csv", "quotes that every third line opens", fill(b'a,"b\nx\ny,"z\n', b"text,b\n")),
    Attack("csv", "records of two lines that do not fit", packed(gz, fill(b'a,b,"c\nd"\n', b"text,b\n"), 4)),
    Attack("csv", "fields of one record", fill(b'x,"', b"text,b\n")),
    Attack("csv", "empty fields", fill(b",", b"text,b\n")),
    Attack("csv", "a header without end", fill(b"text,")),
    Attack("csv", "equal names", fill(b"a,", b"text,", b'b\n1,2\n')),
    Attack("csv", "gzip members of a line", frames(gz, b"text,b\n")),
    Attack("parquet", "row groups of a row", lambda size: parquet(pa.table({"text": ["x"] * (size // 100)}), row_group_size=1)),
    Attack("parquet", "columns", lambda size: parquet(pa.table({"text": ["x"], **{f"c{n}": [n] for n in range(size // 100)}}))),
    Attack("parquet", "rows that are not UTF-8", lambda size: parquet(pa.table({"text": pa.array([b"\xff"] * (size // 8))}))),
    Attack("parquet", "one text for all rows", lambda size: parquet(pa.table({"text": ["x" * size] * (size // 16)}))),
    # Trees
    Attack("markdown", "rulers", fill(b"---\n")),
    Attack("markdown", "front matter without end", fill(b"a: b\n", b"---\n")),
    Attack("markdown", "front matter of lists", fill(b"[", b"---\na: ", b"\n---\nx")),
    Attack("markdown", "front matter of anchors", fill(b"&a ", b"---\na: ", b"x\n---\nx")),
    Attack("markdown", "front matter of keys", numbered("k{n}: 1\n", "---\n", "---\nx")),
    Attack("markdown", "front matter of merges", packed(lambda data: b"---\n" + data + b"---\nx", chain)),
    Attack("markdown", "hashes", fill(b"#")),
    Attack("markdown", "hashes and spaces", fill(b"# ", b"#")),
    Attack("markdown", "fences", fill(b"```\n")),
    Attack("markdown", "equals signs", fill(b"=", b"a\n")),
    Attack("html", "meta tags", fill(b"<meta ")),
    Attack("html", "escapes of ISO 2022", fill(b"\x1b$B", b"<p>")),
    Attack("pdf", "words below each other", fill(b"(a) Tj 0 -9 Td ", PDF_HEAD, PDF_TAIL)),
    Attack("pdf", "words in many columns", fill(b"(a) Tj 40 -9 Td (b) Tj 40 9 Td ", PDF_HEAD, PDF_TAIL)),
    Attack("pdf", "words in one place", fill(b"(a b) Tj ", PDF_HEAD, PDF_TAIL)),
    Attack("code", "SPDX tags", fill(b"SPDX-License-Identifier: ")),
    Attack("code", "SPDX parentheses", fill(b"(", b"// SPDX-License-Identifier: ")),
    Attack("code", "SPDX names", fill(b"MIT OR ", b"// SPDX-License-Identifier: ")),
    Attack("code", "a shebang", fill(b"-a ", b"#!/usr/bin/env ")),
    Attack("code", "license words", fill(b"permission is hereby granted free of charge ")),
    Attack("code", "tabs", fill(b"\t")),
    # Documents in other formats
    *(
        Attack(format_name, what, fill(mark, opened, closed))
        for format_name, opened, closed in (
            ("epub", b"<html>", b"</html>"),
            ("jats", b"<article><body>", b"</body></article>"),
            ("office", b"<document>", b"</document>"),
        )
        for what, mark in (
            ("paragraphs", b"<p>a</p>"),
            ("rows", b"<tr><td>a</td></tr>"),
            ("raised text", b"<sup>a</sup>"),
            ("formulas", b"<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>"),
            ("names", b"&nbsp;"),
        )
    ),
    *(
        Attack(format_name, "attributes of one element", numbered('a{n}="b" ', f"<{root} ", f">x</{root}>"))
        for format_name, root in (("epub", "html"), ("jats", "article"), ("office", "document"))
    ),
    Attack("office", "references to other files", fill(b'<object href="../a"/><p>a</p>', b"<document>", b"</document>")),
    *(
        Attack("office", what, fill(mark, b"<document>", b"</document>"))
        for what, mark in (
            ("formulas of Word", b"<oMath><nary><sub><r><t>i=1</t></r></sub><e><r><t>a</t></r></e></nary></oMath>"),
            ("fences of Word", b"<p><oMath><d><e><r><t>a|b(</t></r></e></d></oMath></p>"),
            ("items", b'<p><pPr><numPr><numId val="1"/><ilvl val="1"/></numPr></pPr><r><t>a</t></r></p>'),
            ("code", b'<p><pPr><pStyle val="Code"/></pPr><r><rPr><rFonts ascii="Mono"/></rPr><t>  a</t><br/></r></p>'),
        )
    ),
    Attack("office", "drop caps", fill(b'<p><pPr><framePr dropCap="drop"/></pPr><r><t>a</t></r></p>', b"<document>", b"</document>")),
    Attack("office", "drop caps with paragraphs", fill(b'<p><pPr><framePr dropCap="drop"/></pPr><r><t>a</t></r></p><p/>', b"<document>", b"</document>")),
    Attack("office", "one formula of Word", fill(b"<r><t>a+1</t></r>", b"<p><oMath>", b"</oMath></p>")),
    Attack("mbox", "mails without an empty line", fill(b"From a Mon 1:11\nb: c\n")),
    Attack("epub", "links", fill(b'<a href="a">b</a>', b"<html><body>", b"</body></html>")),
    Attack("epub", "links in links", fill(b'<a href="a">b', b"<html><body>")),
    Attack("jats", "articles", fill(b"<article><body><p>a</p></body></article>", b"<a>", b"</a>")),
    Attack("jats", "items", fill(b"<list-item><label>1</label><p>a</p></list-item>", b"<article><body><list>", b"</list></body></article>")),
    Attack("latex", "signs of short verbatim text", fill(b"|a", b"\\documentclass{ltxdoc}\\begin{document}")),
    Attack("jats", "opened elements", fill(b"<a>")),
    Attack("jats", "citations", fill(b'[<xref ref-type="bibr">1</xref>, ', b"<article><body>", b"</body></article>")),
    Attack("mediawiki", "pages", fill(b"<page><text>x</text></page>", b"<mediawiki>")),
    Attack("mediawiki", "opened pages", fill(b"<page>", b"<mediawiki>")),
    Attack("mediawiki_chunk", "one end after many open pages", fill(b"<page>", b"<mediawiki>", b"</page>")),
    Attack("mediawiki", "opened texts", fill(b"<text ", b"<mediawiki><page>")),
    Attack("mediawiki", "pages in bzip2", packed(bz2.compress, fill(b"<page></page>", b"<mediawiki>"), 4)),
    Attack("wikitext", "lines of one cell", fill(b"\n*a", b"{|\n|a")),
    *(
        Attack("wikitext", what, fill(mark))
        for what, mark in (
            ("opened templates", b"{{a|"),
            ("closed templates", b"}}"),
            ("templates in templates", b"{{convert|{{lang|a|b}}"),
            ("opened links", b"[[a|"),
            ("opened addresses", b"[//a b "),
            ("links and templates", b"[[a {{b ]] }}"),
            ("references", b"&lt;ref&gt;"),
            ("formulas", b"&lt;math&gt;"),
            ("comments", b"&lt;!--"),
            ("raised text", b"&lt;sup&gt;a"),
            ("tags without end", b"&lt;a "),
            ("tables", b"\n{|\n|a||b\n"),
            ("cells", b"\n{|\n|a|b=|c"),
            ("headings", b"\n== a =="),
            ("equals signs", b"\n="),
            ("lists", b"\n*#:;"),
            ("list marks", b"*"),
            ("numbered lists", b"\n#a\n##b"),

            ("countries", b"{{USA}}"),
            ("brackets", b" ( , "),
            ("spaces", b" "),
            ("quotes", b"'"),
            ("dates", b"{{birth date|1|2|3}}"),
            ("units", b"{{convert|1|to|2|to|3|ft|4|in}}"),
            ("quotations", b"{{quote|text=[a|author=[b]}}"),
            ("citations", b"a {{cite book|title=b}} "),
            ("coordinates", b"{{coord|1|2|N|3|4|W}}"),
            ("elided articles", b" l''''a"),
            ("parameters", b"{{{a|"),
            ("variants", b"-{zh:a;"),
            ("character references", b"&#39;"),
            ("arguments of one template", b"|a"),
        )
    ),
    *(
        Attack("latex", what, fill(mark, b"\\documentclass{a}\\newcommand{\\a}[1]{#1#1}\\begin{document}x "))
        for what, mark in (
            ("opened braces", b"{"),
            ("opened formulas", b"\\("),
            ("dollars", b"$ a "),
            ("opened equations", b"\\begin{equation}"),
            ("opened verbatim", b"\\begin{verbatim}"),
            ("opened lists", b"\\begin{enumerate}\\item"),
            ("labels of items", b"\\item[\\textbf{a}]"),
            ("references", b"\\section{a}\\label{b}\\ref{b}\\pageref{b}"),
            ("opened references", b"\\ref{"),
            ("pages", b" on the page \\pageref{a}"),
            ("labels of formulas", b"\\begin{align}a\\label{b}\\\\ \\ref{b}"),
            ("macros in arguments", b"\\a{"),
            ("verbatim environments", b"\\newminted{a}{b}\\begin{acode}"),
            ("commands in code", b"\\begin{alltt}\\a{\\{\\end{alltt}"),
            ("heads of tables", b"\\begin{longtable}{a}\\endfirsthead b\\endhead"),
            ("notes of citations", b"\\citep[a][b]{c}"),
            ("options of captions", b"\\subfloat[a][b]"),
            ("lines of tabbing", b"\\begin{tabbing}a\\kill b\\\\"),
            ("options after options", b"[a]"),
            ("marks of items", b"\\item\n\n"),
            ("raised text in itself", b"\\textsuperscript{"),
            ("algorithms", b"\\begin{algorithmic}\\If{a}"),
            ("addresses", b"\\url{a%b}\\href{"),
            ("backslashes before a comment", b"\\\\%"),
            ("short verbatim", b"\\verb|a| "),
            ("opened short verbatim", b"\\verb|a"),
            ("German letters", b'"a'),
            ("headings", b"\\section{a}"),
            ("opened headings", b"\\section{"),
            ("citations", b"\\cite[a][b]{c,"),
            ("definitions", b"\\newcommand{\\b}{c}\\b "),
            ("macros", b"\\a{b}"),
            ("macros without arguments", b"\\a"),
            ("titles", b"\\title{a}"),
            ("rows", b"\\begin{tabular}{l} a & b \\\\ "),
            ("items", b"\n\\item a"),
            ("comments", b"%a\n"),
            ("inputs", b"\\input{a}"),
            ("accents", b"\\'e"),
            ("options", b"\\a[b"),
        )
    ),
    Attack("subtitles", "captions", fill(b"00:00:01,000 --> 00:00:02,000\na\n\n")),
    Attack("subtitles", "lines of a caption", fill(b"a\n", b"00:00:01,000 --> 00:00:02,000\n")),
    Attack("subtitles", "times", fill(b"9999:99:99,999 --> 9999:99:99,999 --> ")),
    Attack("subtitles", "addresses of pictures", fill(b"a.jpg", b"00:00:01,000 --> 00:00:02,000\n")),
    Attack("subtitles", "opened tags", fill(b"<v a", b"00:00:01,000 --> 00:00:02,000\n")),
    Attack("subtitles", "equal captions of many lines", packed(lambda data: data, lambda size: (b"00:00:01,000 --> 00:00:02,000\n" + b"a\n" * 100 + b"\n") * (size // 231))),
    Attack("stack_exchange", "rows", fill(b'<row Id="1" PostTypeId="1" Body="x"/>\n', b"<posts>\n")),
    Attack("stack_exchange", "one row without an end", fill(b'a="b" ', b"<posts>\n<row ")),
    Attack("stack_exchange", "tags", fill(b"&lt;a", b'<posts>\n<row PostTypeId="1" Tags="', b'"/>')),
    Attack("mbox", "mails", fill(b"From a 1:11\n\nb\n\n")),
    Attack("mbox", "lines that begin like a mail", fill(b"\n\nFrom a", b"From a 1:11\n\n")),
    Attack("mbox", "quotations", fill(b"a:\n> b\n", b"From a 1:11\n\n")),
    Attack("mbox", "ids", fill(b"<a>", b"From a 1:11\nReferences: ", b"\n\nb")),
    Attack("mbox", "marks of replies", fill(b"re: ", b"From a 1:11\nSubject: ", b"\n\nb")),
    Attack("mbox", "encoded words", fill(b"=?utf-8?q?a?= ", b"From a 1:11\nSubject: ", b"\n\nb"), 1 << 15),
    Attack("mbox", "a header without end", fill(b"a", b"From a 1:11\nSubject: ")),
    Attack("mbox", "a folded header", fill(b" =?utf-8?q?a?=\n", b"From a 1:11\nSubject: a\n", b"\nb")),
    Attack("mbox", "headers", fill(b"a: b\n", b"From a 1:11\n")),
    Attack("mbox", "empty parameters", fill(b";", b"From a 1:11\nContent-Type: text/plain", b"\n\nb"), 1 << 16),
    Attack("mbox", "parameters", numbered("a*{n}=x; ", "From a 1:11\nContent-Type: text/plain; ", "\n\nb"), 1 << 16),
    Attack("mbox", "parts", fill(b"--b\n\nc\n", b"From a 1:11\nContent-Type: multipart/mixed; boundary=b\n\n")),
    Attack("mbox", "signatures", fill(b"--\n-- \n", b"From a 1:11\n\nb\n")),
    Attack("mbox", "headers of Outlook", fill(b"From: a\n", b"From a 1:11\n\nb\n")),
    Attack("mbox", "wrapped quotations", fill(b"> " + b"a " * 40 + b"\nb\n", b"From a 1:11\n\n")),
    Attack("mbox", "ids without a number", fill(b"<a", b"From a 1:11\nReferences: ", b"\n\nb")),
    Attack("mbox", "names of lists", fill(b"[a] ", b"From a 1:11\nSubject: ", b"\n\nb")),
    Attack("notebook", "formulas among outputs", fill(b'{"data": {"text/latex": "$y$"}},', b'{"cells": [{"cell_type": "code", "source": "x", "outputs": [', b"{}]}]}")),
    Attack("notebook", "an overwritten line", fill(b"y\\r", b'{"cells": [{"cell_type": "code", "outputs": [{"text": "', b'"}]}]}')),
    Attack("notebook", "fences", fill(b"`", b'{"cells": [{"cell_type": "code", "source": "', b'"}]}')),
    Attack("notebook", "images", fill(b"(data:", b'{"cells": [{"cell_type": "markdown", "source": "', b'"}]}')),
    Attack("notebook", "outputs", fill(b'{"text": ["y"]},', b'{"cells": [{"cell_type": "code", "source": "x", "outputs": [', b"{}]}]}")),
    Attack("notebook", "one output", fill(b"\\u001b[0;31my", b'{"cells": [{"cell_type": "code", "outputs": [{"text": "', b'"}]}]}')),
    Attack("notebook", "cells", fill(b'{"cell_type": "code", "source": "x", "outputs": [{"text": "y"}]},', b'{"cells": [', b"{}]}")),
    # Lists, robots.txt
    Attack("robots", "groups", fill(b"User-agent: x\nDisallow: /\n")),
    Attack("robots", "agents", numbered("User-agent: mill-{n}\n", "", "Disallow: /a\n")),
    Attack("robots", "agents and rules", numbered("User-agent: mill\nUser-agent: *\nDisallow: /{n}\n")),
    Attack("robots", "paths", numbered("Disallow: /%41{n}\n", "User-agent: *\n")),
    Attack("lists", "one line", fill(b"x")),
    Attack("lists", "short lines", fill(b"a.example\n")),
    # Recipes
    Attack("recipe", "merges of merges", merges, 1 << 10),
    Attack("recipe", "a chain of merges", chain, 1 << 10),
    Attack("recipe", "aliases of aliases", aliases, 1 << 10),
    Attack("recipe", "aliases of one list", shared),
    Attack("recipe", "opened lists", fill(b"[")),
    Attack("recipe", "opened mappings", fill(b"{a: ")),
    Attack("recipe", "dashes", fill(b"- ")),
    Attack("recipe", "questions", fill(b"? ")),
    Attack("recipe", "deeper and deeper", lambda size: b"".join(b" " * n + b"a:\n" for n in range(int((2 * size) ** 0.5)))),
    Attack("recipe", "one line", fill(b"x")),
    Attack("recipe", "comments", fill(b"#\n")),
    Attack("recipe", "variables", fill(b"${A} ", b"recipe: ")),
    Attack("recipe", "open variables", fill(b"${", b"recipe: ")),
    Attack("recipe", "unknown fields", numbered("f{n}: 1\n", RECIPE)),
    Attack("recipe", "sources", numbered("  s{n}: {kind: text, read: {format: jsonl, paths: [in]}}\n", RECIPE.replace("steps: [extract]\n", ""), "steps: [extract]\n")),
    Attack("recipe", "sources that are none", numbered("  s{n}: 1\n", RECIPE.replace("steps: [extract]\n", ""), "steps: [extract]\n")),
    Attack("recipe", "equal steps", fill(b"- extract\n", RECIPE.replace("steps: [extract]", "steps:").encode())),
    Attack("recipe", "steps that are none", numbered("- s{n}\n", RECIPE.replace("steps: [extract]", "steps:"))),
    Attack("recipe", "lists of steps", numbered("  s{n}: []\n", RECIPE.replace("steps: [extract]", "steps:"))),
    Attack("recipe", "kinds without lists", numbered("  s{n}: {kind: k{n}, read: {format: jsonl, paths: [in]}}\n", RECIPE.replace("steps: [extract]\n", ""), "steps: {k0: []}\n")),
    Attack("recipe", "open quotes", fill(b'a: "b\n')),
    Attack("recipe", "paths", numbered("in{n}, ", READ, "x]}}\n")),
    Attack("recipe", "rules", numbered("r{n}, ", RECIPE.replace("[extract]", "[heuristics: {rules: ["), "x]}]\n")),
    Attack("recipe", "paths that are numbers", fill(b"1, ", READ.encode(), b"x]}}\n")),
    Attack("recipe", "a key twice", fill(b"seed: 1\n", RECIPE.encode())),
    Attack("recipe", "a long key", lambda size: RECIPE.encode() + b"sead" * (size // 4) + b": 1\n"),
    Attack("recipe", "a long number", fill(b"9", RECIPE.encode() + b"seed: ")),
    # Personal data in texts
    # Decontamination: repetitive items and texts (the items are those of test_work_is_linear).
    Attack("decontaminate", "an item that repeats itself", fill(b"mill stone wheel "), 1 << 14),
    Attack("decontaminate", "items of one template", fill(b"the miller ground 7 sacks of rye on the mill by the river on day 7 of the week. "), 1 << 14),
    Attack("decontaminate", "a short question", fill(b"the water wheel turns "), 1 << 14),
    Attack("decontaminate", "code that repeats itself", fill(b"    c = c + d(c)\n", b"def g(c):\n"), 1 << 14),
    Attack("scrub", "signs", fill(b"a@")),
    Attack("scrub", "addresses", fill(b"a@b.com")),
    Attack("scrub", "addresses of each other", fill(b"a@b.com,")),
    Attack("scrub", "signs with spaces", fill(b"ab @ b.com ")),
    Attack("scrub", "escaped signs", fill(b"a%40")),
    Attack("scrub", "addresses with escaped signs", fill(b"a%40b.com")),
    Attack("scrub", "users of URLs", fill(b"://a@b.com:")),
    Attack("scrub", "versions and addresses", fill(b"v5 or 6 to 91.198.174.199 ")),
    Attack("scrub", "a domain of dashes", fill(b"a-", b"a@")),
    Attack("scrub", "digits", fill(b"1234567890")),
    Attack("scrub", "a table of numbers", fill(b"12345678 ")),
    Attack("scrub", "phone numbers", fill(b"tel +49 30 1234567, ")),
    Attack("scrub", "dotted numbers", fill(b"1.")),
    Attack("scrub", "IP addresses", fill(b"45.33.32.156-")),
    Attack("scrub", "colons", fill(b"2a00:")),
    Attack("scrub", "cards", fill(b"4012 8888 8888 1881 ")),
    Attack("scrub", "groups of an IBAN", fill(b"DE89 3704 ")),
    Attack("scrub", "keys that never end", fill(b"-----BEGIN RSA PRIVATE KEY-----\n")),
    Attack("scrub", "tokens", fill(b"sk-proj-a1B2c3D4e5F6g7H8")),
    Attack("scrub", "headers of tokens", fill(b"eyJhbGciOiJIUzI1NiJ9.")),
    Attack("scrub", "words of wallets", fill(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa ")),
    Attack("scrub", "logins", fill(b"x://u:pass")),
    Attack("scrub", "words for signs", fill(b"a at b dot ")),
    Attack("scrub", "words for signs in brackets", fill(b"a (at) a (dot) ")),
    Attack("scrub", "passwords of placeholders", fill(b"your_x", b"x://u:")),
    Attack("scrub", "settings", fill(b"password=a1B2c3D4e5F6g7H8i9 ")),
    # Models and shards
    Attack("tokenizer", "a vocabulary", vocabulary),
    Attack("tokenizer", "opened lists", fill(b"[", b'{"model": ')),
    Attack("ranks", "a long token", ranks),
    Attack("ranks", "empty lines", fill(b"\n")),
    Attack("ranks", "broken lines", fill(b"YQ== \n")),
    Attack("manifest", "groups", manifest),
    Attack("manifest", "opened lists", fill(b"[")),
    Attack("index", "zeros", fill(b"\0", b"GRISTIDX\1\0\0\0")),
]  # fmt: skip
