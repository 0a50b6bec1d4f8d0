"""Licenses as SPDX names: expressions in file headers, and license texts recognised by their phrases."""

import re

from gristmill.data_files import read_table

_TABLES = read_table(__file__, "licenses.toml")
SPDX_NAMES: frozenset[str] = frozenset(_TABLES["listed"].split())
PHRASES: list[tuple[str, list[str], list[str]]] = [
    (name, *([phrase.format_map(_TABLES["phrase"]) for phrase in phrases] for phrases in (needed, without)))
    for name, needed, without in _TABLES["phrases"]
]
_SPELLED = {*_TABLES["spelled"].split(), *(name for name, _, _ in PHRASES)}

HEADER_LINES = 60
"""How many lines of a file are searched for its SPDX tag, which belongs in the first comment (REUSE 3.0)."""
_HEADER_CHARACTERS = 1 << 14

_TAG = re.compile(r"SPDX-License-Identifier:[ \t]*([^\r\n]*)")
# A name is an SPDX identifier, `LicenseRef-x` or `DocumentRef-x:LicenseRef-y`, with an optional `+`.
_TOKEN = re.compile(r"\s*(\(|\)|(?:DocumentRef-[\w.-]+:)?[A-Za-z0-9](?:[\w.]|-(?![->]))*\+?)", re.ASCII)
_CANONICAL = {name.lower(): name for name in _SPELLED}
_DEPTH = 16
_EXPRESSION_CHARACTERS = 500


def header(text: str) -> str | None:
    """The expression of the first `SPDX-License-Identifier` in the first lines of a file."""
    head = text[:_HEADER_CHARACTERS]
    if "SPDX-License-Identifier:" not in head:
        return None
    for line in head.split("\n")[:HEADER_LINES]:
        if found := _TAG.search(line):
            return expression(found[1])
    return None


def expression(source: str) -> str | None:
    """The longest SPDX expression at the start of a string, in SPDX's own spelling, or None.

    What follows it is the end of a comment (`*/`, `-->`) or a remark. `Apache-2.0 or mit` is `Apache-2.0 OR MIT`.
    """
    tokens: list[str] = []
    at = 0
    source = source[:_EXPRESSION_CHARACTERS]
    while found := _TOKEN.match(source, at):
        tokens.append(found[1].rstrip(".") if not found[1].rstrip(".").endswith("+") else found[1])
        at = found.end()
    if tokens and tokens[0].upper() in ("NONE", "NOASSERTION"):
        return tokens[0].upper()
    for end in range(len(tokens), 0, -1):
        parsed = _parse(tokens[:end], 0, 0)
        if parsed is not None and parsed[1] == end:
            return parsed[0]
    return None


def _parse(tokens: list[str], at: int, depth: int) -> tuple[str, int] | None:
    """Parses `operand (AND|OR operand)*` from token `at`: the text and the next token. It needs no tree, since order
    and parentheses stay as they are."""
    left = _operand(tokens, at, depth)
    while left is not None and left[1] < len(tokens) and tokens[left[1]].upper() in ("AND", "OR"):
        right = _operand(tokens, left[1] + 1, depth)
        if right is None:
            return left
        left = f"{left[0]} {tokens[left[1]].upper()} {right[0]}", right[1]
    return left


def _operand(tokens: list[str], at: int, depth: int) -> tuple[str, int] | None:
    if at >= len(tokens) or depth > _DEPTH:
        return None
    if tokens[at] == "(":
        inner = _parse(tokens, at + 1, depth + 1)
        if inner is None or inner[1] >= len(tokens) or tokens[inner[1]] != ")":
            return None
        return f"({inner[0]})", inner[1] + 1
    name = tokens[at]
    if name == ")" or name.upper() in ("AND", "OR", "WITH"):
        return None
    bare = name.rstrip("+")
    spelled = _CANONICAL.get(name.lower()) or _CANONICAL.get(bare.lower(), bare) + ("+" if bare != name else "")
    if at + 2 < len(tokens) and tokens[at + 1].upper() == "WITH" and tokens[at + 2] not in "()":
        return f"{spelled} WITH {tokens[at + 2]}", at + 3
    return spelled, at + 1


_WORDS = re.compile(r"[a-z0-9]+")


def recognise(text: str) -> str | None:
    """The license of a text, by phrases that no other license has. If a file appends other licenses (CPython's LICENSE
    ends with those of borrowed code), the first one."""
    if stated := header(text):
        return stated
    words = f" {' '.join(_WORDS.findall(text.lower()))} "
    best: tuple[int, int, str] | None = None
    for rank, (name, phrases, without) in enumerate(PHRASES):
        places = [words.find(f" {phrase} ") for phrase in phrases]
        if min(places) >= 0 and not any(f" {phrase} " in words for phrase in without):
            found = (places[0], rank, name)
            best = found if best is None else min(best, found)
    return best[2] if best else None


_FAMILY = (
    r"(?:mit|apache|asl|bsd|a?gpl|lgpl|lesser|lib|mpl|isc|zlib|boost|bsl|unlicen[sc]e|cc0|cc|epl|psf|python|artistic|wtfpl"
    r"|ofl|eupl|x11|unicode|ncsa)(?![a-z])[\w.+-]*?"
)
_PROSE = r"(?:\.(?:txt|md|markdown|rst|adoc|org))?"
_ANY_LICENSE = re.compile(rf"(?i)(?:(?:un)?licen[sc]es?|copying)\d?{_PROSE}")
_NAMED_LICENSE = re.compile(rf"(?i)(?:licen[sc]e|copying)\d?[-_.]{_FAMILY}{_PROSE}|{_FAMILY}[-_.]licen[sc]e{_PROSE}")


_CREATIVE_COMMONS = re.compile(r"creativecommons\.org/(?:licenses|publicdomain)/(by|by-[a-z-]{2,8}|zero)/(\d\.\d)")
_CC_NAMED = re.compile(
    r"\bcc[ -](by(?:-nc)?(?:-sa|-nd)?)[ -](\d\.\d)"
    r"|\bcreative commons[ :]+(attribution(?:[ -]+non-?commercial)?(?:[ -]+share-?alike|[ -]+no-?deriv(?:ative)?s)?)"
    r"(?: \(cc[^()]{0,20}\))?(?: license)?,?(?: version)? (\d\.\d)"
)


def creative_commons(text: str) -> str | None:
    """The license whose address is in a text, or its name with its version, as articles and books state it."""
    found = _CREATIVE_COMMONS.search(text.lower())
    if found is None:
        named = _CC_NAMED.search(" ".join(text.lower().split()))
        if named is None:
            return None
        words = named[1] or named[3]
        parts = ("-NC" if "nc" in words or "comm" in words else "", "-SA" if "sa" in words or "alike" in words else "")
        return f"CC-BY{''.join(parts)}{'-ND' if 'nd' in words or 'deriv' in words else ''}-{named[2] or named[4]}"
    return f"CC0-{found[2]}" if found[1] == "zero" else f"CC-{found[1].upper()}-{found[2]}"


def is_license_file(name: str) -> bool:
    """Matches `LICENSE`, `COPYING.LESSER`, `LICENSE-MIT.txt`, `MIT-LICENSE`, but not `license.py` or
    `license-header.txt`, which would hide the license of the folder above."""
    base = name.rsplit("/", 1)[-1]
    return bool(_ANY_LICENSE.fullmatch(base) or _NAMED_LICENSE.fullmatch(base))


def combined(found: dict[str, str]) -> str | None:
    """One expression for the license files of one folder, by file name. COPYING.LESSER adds to COPYING and is the
    license that counts; `LICENSE-MIT` and `LICENSE-APACHE` leave the choice; otherwise all licenses apply."""
    names = set(found.values())
    lesser = {name for name in names if name.startswith("LGPL-")}
    if lesser and all(name.startswith(("LGPL-", "GPL-")) for name in names):
        names = lesser
    if len(names) < 2:
        return next(iter(names), None)
    offered = all(_NAMED_LICENSE.fullmatch(path.rsplit("/", 1)[-1]) for path in found)
    parts = sorted(f"({name})" if " " in name else name for name in names)
    return (" OR " if offered else " AND ").join(parts)
