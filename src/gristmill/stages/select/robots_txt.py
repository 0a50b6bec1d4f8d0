"""The rules of a robots.txt that apply to one crawler (RFC 9309, sections 2.1 to 2.2.4 and 2.5).

In the path of a rule, `*` is any characters, and `$` at the end is the end. Rules and paths have the one spelling of
`shared/urls.py`; `%2A` and `%24` are the characters `*` and `$` themselves.
"""

import re

from gristmill.stages.shared.urls import Url, spelled

MAX_BYTES = 500 * 1024
"""The bytes that are read of a file, the minimum of the RFC. A line that is cut there is ignored, since half a path
forbids more than the whole."""

_LINE_END = re.compile("\r\n|\r|\n")
_PRODUCT = re.compile(r"[^\s/;(]*")


def rules_for(text: str, agent: str) -> list[tuple[bool, str]]:
    """(allowed, path) of every rule for `agent`, in order of precedence.

    Groups belong to an agent by name, in upper or lower case. A group for `Googlebot` also applies to `Googlebot-News`
    unless that has its own. All groups of the longest matching name are combined, or those of `*` if none matches. The
    longest path decides; of two equal lengths, the one that allows.
    """
    ours = agent.lower()
    groups: dict[int, set[tuple[bool, str]]] = {}
    members: set[int] = set()
    in_rules = False
    for line in _LINE_END.split(_head(text)):
        key, colon, value = line.partition("#")[0].partition(":")
        if not colon:
            continue
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            if in_rules:
                members, in_rules = set(), False
            rank = _rank(value, ours)
            if rank is not None:
                members.add(rank)
                groups.setdefault(rank, set())
        elif key in ("allow", "disallow"):
            in_rules = True
            if members and value.startswith(("/", "*")):
                path = spelled(value)
                rule = (key == "allow", path[:-1].replace("$", "%24") + path[-1:])
                for rank in members:
                    groups[rank].add(rule)
    found = groups[max(groups)] if groups else set()
    return sorted(found, key=lambda rule: (-len(rule[1]), not rule[0], rule[1]))


def _head(text: str) -> str:
    text = text.removeprefix("\ufeff")
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_BYTES:
        return text
    head = data[:MAX_BYTES]
    end = max(head.rfind(b"\n"), head.rfind(b"\r"))
    return head[: end + 1].decode("utf-8", "replace")


def _rank(value: str, agent: str) -> int | None:
    """How specifically a user-agent line matches an agent: 0 for `*`, else the length of the name; None: no match."""
    if value == "*" or (value[:1] == "*" and value[1:2].isspace()):
        return 0
    found = _PRODUCT.match(value)
    name = found[0].lower() if found else ""
    return len(name) if name and (name == agent or agent.startswith(f"{name}-")) else None


def path_of(url: Url) -> str:
    """Path and query of a URL, as rules compare them."""
    path = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    return path.replace("*", "%2A").replace("$", "%24")


class SiteRules:
    """The rules of a site, in order of precedence."""

    def __init__(self, rules: list[tuple[bool, str]]) -> None:
        self._rules = rules
        self._with_signs = [rule for rule in rules if _has_sign(rule[1])]
        self._plain = tuple(path for _, path in rules if not _has_sign(path))

    def deciding(self, path: str) -> tuple[bool, str] | None:
        """The first rule that matches a path."""
        rules = self._rules if path.startswith(self._plain) else self._with_signs
        return next((rule for rule in rules if _matches(rule[1], path)), None)


def _has_sign(path: str) -> bool:
    return "*" in path or path.endswith("$")


def _matches(rule: str, path: str) -> bool:
    """Whether a rule matches the start of a path: each piece between two `*` at the first place where it can be."""
    is_whole = rule.endswith("$")
    start, *pieces = rule.removesuffix("$").split("*")
    if not path.startswith(start):
        return False
    offset = len(start)
    last = pieces.pop() if pieces and is_whole else ""
    for piece in pieces:
        offset = path.find(piece, offset) + len(piece)
        if offset < len(piece):
            return False
    if not is_whole:
        return True
    return len(path) - len(last) >= offset and path.endswith(last) if "*" in rule else offset == len(path)
