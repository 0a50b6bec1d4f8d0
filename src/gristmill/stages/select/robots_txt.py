"""Parses the rules of a robots.txt that apply to one crawler (RFC 9309, sections 2.1 to 2.2.4 and 2.5)."""

import re

import numpy as np

from gristmill.kernels.urls.robots import write_rule

MAX_BYTES = 500 * 1024
"""The bytes that are read of a file, the minimum of the RFC. A line that is cut there is ignored, since half a path
forbids more than the whole."""

_LINE_END = re.compile("\r\n|\r|\n")
_PRODUCT = re.compile(r"[^\s/;(]*")


def rules_for(text: str, agent: str) -> list[tuple[bool, str]]:
    """(allowed, path) of every rule for `agent`, in order of precedence.

    Groups belong to an agent by name, in upper or lower case. A group for `Googlebot` also applies to `Googlebot-News`
    unless that has its own. All groups of the longest matching name are combined, or those of `*` if none matches. The
    longest path decides; of two equal lengths, the one that allows. Paths are in the form of `kernels/urls/robots.py`.
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
                rule = (key == "allow", _common_form(value))
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


def _common_form(path: str) -> str:
    if path.isascii() and "%" not in path and "$" not in path[:-1]:
        return path
    return str(write_rule(np.frombuffer(path.encode("utf-8", "replace"), np.uint8)).tobytes(), "ascii")
