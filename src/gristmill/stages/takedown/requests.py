"""Reads the files of takedown requests that a recipe names under `takedowns`.

    - id: dmca-2026-017               identifies the request in every verdict and receipt
      date: 2026-11-02                optional, like `reason`
      urls: [https://example.com/a]   pages, in any spelling
      url_prefixes: [https://example.com/private/]
      domains: [example.org]          hosts, and every host below them
      files: [manuals/a.pdf]          input files, as documents show them: all their documents
      doc_ids: [0123456789abcdef0123456789abcdef]
      content_hashes: [...]           sha256 of a document's text after the last step
      texts: [letters/one.txt]        text files, relative to this file; documents that contain them are removed

A file that ends in `.txt` is one request, named after the file, with one item per line: a URL, a URL with `*` at its
end (a prefix), a domain, a doc_id (32 digits) or a hash (64 digits). Lines that begin with `#` are comments.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from gristmill.counted import counted
from gristmill.errors import UserError, cause_of
from gristmill.stages.yaml_nodes import compose

MOST_BYTES = 256 * 2**20
MOST_ID = 100
ITEMS = ("urls", "url_prefixes", "domains", "files", "doc_ids", "content_hashes", "texts")
_FIELDS = ("id", "date", "reason", *ITEMS)
_ID = re.compile(rf"[^\s\x00-\x1f]{{1,{MOST_ID}}}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_NO_HOST = re.compile(r"[\s/?#@:*]")
_DIGITS = {"doc_ids": 32, "content_hashes": 64}
_SCALAR, _SEQUENCE, _MAPPING = yaml.ScalarNode, yaml.SequenceNode, yaml.MappingNode


@dataclass(frozen=True)
class Request:
    """One takedown request."""

    id: str
    date: str = ""
    reason: str = ""
    urls: tuple[str, ...] = ()
    url_prefixes: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    content_hashes: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=())
    """Paths, relative to the file of the requests."""

    def items(self) -> Iterator[tuple[str, str]]:
        """The kind and value of every item that the request names."""
        for kind in ITEMS:
            for value in getattr(self, kind):
                yield kind, value


def read_requests(path: str, shown: str | None = None) -> tuple[Request, ...]:
    """Read the requests of a file; a UserError names the line. `shown` is the user's name of the file, from which a
    `.txt` file gets the name of its request.
    """
    shown = shown or path
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"{shown}: the requests cannot be read: {cause_of(error)}. Name a readable file.") from None
    if len(data) > MOST_BYTES:
        raise UserError(f"{shown}: the file is larger than 256 MiB, the limit for requests. Split it into several.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{shown}:{line}: not UTF-8, so the requests cannot be read. Save the file as UTF-8.") from None
    if shown.lower().endswith(".txt"):
        return (_of_lines(text, shown),)
    return _of_yaml(text, shown)


def read_all(paths: Sequence[str], names: Sequence[str] = ()) -> tuple[Request, ...]:
    """Read the requests of several files; `names` are the user's names of the files."""
    found: dict[str, Request] = {}
    for path, name in zip(paths, names or paths, strict=True):
        for request in read_requests(path, name):
            if request.id in found:
                raise UserError(
                    f"{name or path}: a request in another file also has the id {_short(request.id)}, and verdicts "
                    "show only the id. Give each request its own id."
                )
            found[request.id] = request
    return tuple(found.values())


def _of_lines(text: str, shown: str) -> Request:
    found: dict[str, list[str]] = {kind: [] for kind in ITEMS}
    name = re.sub(r"\s", "-", os.path.splitext(os.path.basename(shown))[0])[:MOST_ID]
    for number, line in enumerate(text.splitlines(), 1):
        item = line.strip()
        if item and not item.startswith("#"):
            kind, value = _recognised(item, f"{shown}:{number}")
            found[kind].append(value)
    items: dict[str, Any] = {kind: tuple(values) for kind, values in found.items()}
    return Request(name, **items)


def _recognised(item: str, where: str) -> tuple[str, str]:
    for kind, digits in _DIGITS.items():
        if len(item) == digits and _HEX.fullmatch(item):
            return kind, item.lower()
    if "://" in item:
        kind = "url_prefixes" if item.endswith("*") else "urls"
        return kind, _item(item, kind, where)
    if _is_host(item.removeprefix("*").strip(".")):
        return "domains", _item(item, "domains", where)
    raise UserError(
        f"{where}: {_short(item)} is not a URL (with https://), a domain, a doc_id (32 digits) or the sha256 of a text "
        "(64 digits), so it is not clear what to remove. Correct the line."
    )


def _of_yaml(text: str, shown: str) -> tuple[Request, ...]:
    root = compose(text, shown, "file of requests", "A list of requests is three levels deep.")
    if root is None or (isinstance(root, _SEQUENCE) and not root.value):
        return ()
    if not isinstance(root, _SEQUENCE):
        raise UserError(f"{shown}:1: requests must be a list. Begin each with a dash and its id: - id: dmca-1")
    requests: dict[str, Request] = {}
    items = 0
    for node in root.value:
        request = _request(node, shown)
        items += sum(len(getattr(request, kind)) for kind in ITEMS)
        if items > len(text):
            raise UserError(f"{_at(node, shown)}: aliases make more items than the file has letters. Write them out.")
        if request.id in requests:
            raise UserError(
                f"{_at(node, shown)}: an earlier request also has the id {_short(request.id)}, and verdicts show only "
                "the id. Give each request its own id."
            )
        requests[request.id] = request
    return tuple(requests.values())


def _request(node: yaml.Node, shown: str) -> Request:
    if not isinstance(node, _MAPPING):
        raise UserError(f"{_at(node, shown)}: a request must be a mapping with an id. Write, for example, - id: dmca-1")
    values: dict[str, Any] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, _SCALAR) else ""
        if name not in _FIELDS:
            raise UserError(
                f"{_at(key, shown)}: {_short(str(name))} is not a field of a request, so it would have no effect. "
                f"Fields: {', '.join(_FIELDS)}."
            )
        if name in values:
            raise UserError(f"{_at(key, shown)}: {name} occurs twice in this request. Write everything in one list.")
        values[name] = _list(value, name, shown) if name in ITEMS else _text(value, name, shown)
        if name == "date" and not _is_date(values[name]):
            raise UserError(f"{_at(value, shown)}: {_short(values[name])} is not a date. Write it like 2026-11-02.")
    if not _ID.fullmatch(values.get("id", "")):
        raise UserError(
            f"{_at(node, shown)}: a request needs an id of 1 to {MOST_ID} characters without spaces, since every "
            "verdict shows it. Add one: id: dmca-1"
        )
    if not any(values.get(kind) for kind in ITEMS):
        raise UserError(
            f"{_at(node, shown)}: the request {values['id']} names nothing to remove. Add one of {', '.join(ITEMS)}."
        )
    return Request(**values)


def _list(node: yaml.Node, name: str, shown: str) -> tuple[str, ...]:
    items = node.value if isinstance(node, _SEQUENCE) else [node]
    return tuple(_item(_text(item, name, shown), name, _at(item, shown)) for item in items)


def _item(written: str, kind: str, where: str) -> str:
    value = written
    if not value.isprintable():
        raise UserError(f"{where}: {_short(value)} has a character that cannot be printed. Remove it.")
    if kind == "url_prefixes":
        value = value.removesuffix("*")
    if kind == "domains":
        value = value.removeprefix("*").strip(".")
    if kind in ("urls", "url_prefixes") and re.search(r"\s", value):
        raise UserError(f"{where}: {_short(value)} has a space, so it is not one URL. Write each URL separately.")
    digits = _DIGITS.get(kind)
    if digits and not (len(value) == digits and _HEX.fullmatch(value)):
        what = "a doc_id has 32" if kind == "doc_ids" else "the sha256 of a text has 64"
        raise UserError(f"{where}: {_short(value)} is not valid in {kind}: {what} hexadecimal digits. Copy all of it.")
    if kind in ("urls", "url_prefixes") and "://" not in value:
        raise UserError(f"{where}: {_short(value)} is not a URL: it has no scheme. Write https://{value}")
    if kind == "url_prefixes" and not value.partition("://")[2].strip("/"):
        raise UserError(f"{where}: {_short(value)} has no host, so it would match every page. Add the host.")
    if kind == "domains" and not _is_host(value):
        raise UserError(f"{where}: {_short(written)} is not a domain such as example.com. For a single page, use urls.")
    return value.lower() if digits else value


def _is_date(text: str) -> bool:
    try:
        return datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_host(name: str) -> bool:
    """Whether a name without dots at its ends may be a host."""
    return name == "localhost" or ("." in name and not _NO_HOST.search(name))


def _text(node: yaml.Node, name: str, shown: str) -> str:
    if not isinstance(node, _SCALAR) or not str(node.value).strip():
        raise UserError(f"{_at(node, shown)}: {name} must be text. Write one value.")
    return str(node.value).strip()


def _at(node: yaml.Node, shown: str) -> str:
    return f"{shown}:{node.start_mark.line + 1}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def describe_requests(requests: Sequence[Request]) -> str:
    """The number of requests, and of their items of each kind, in words."""
    counts = {kind: sum(len(getattr(request, kind)) for request in requests) for kind in ITEMS}
    items = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
    return f"{counted(len(requests), 'request')} ({items or 'without items'})"
