"""Expands the macros that a LaTeX document defines, in bounded work."""

import re

from gristmill.stages.reading.decompress import ReadFault

MAX_DEPTH = 30
"""Macros whose bodies use each other, or themselves."""
MAX_GROWTH = 20
"""How many times longer than its source a document may become by its macros; and 64 KiB."""

_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_WORD = re.compile(r"\\([A-Za-z@]+)\*?")
_ARGUMENT = re.compile(r"#([1-9])")
_DEFINES = re.compile(
    r"\s*+\*?\s*+(?:\{\s*+\\([A-Za-z@]++)\s*+\}|\\([A-Za-z@]++))\s*+(?:\[(\d)\])?\s*+(?:\[([^\[\]]*+)\])?\s*+(?=\{)"
)
_DOCUMENT = re.compile(
    r"\s*+(?:\{\s*+\\([A-Za-z@]++)\s*+\}|\\([A-Za-z@]++))\s*+\{\s*+(?:(o)|O\{([^{}]*)\})?\s*+((?:m\s*+)*+)([^{}]*+)\}\s*+(?=\{)"
)
"""A definition of xparse: an optional argument and those that must be there; or others, which are not known here."""
_DEF = re.compile(r"\s*+\\([A-Za-z@]++)((?:#\d)*+)([^{}\\]{0,40}+)\s*+(?=\{)")
_ENVIRONMENT = re.compile(r"\s*+\*?\s*+\{([A-Za-z@]++\*?)\}\s*+(?:\[(\d)\])?\s*+(?:\[([^\[\]]*+)\])?\s*+(?=\{)")
_NAME = re.compile(r"\s*\{([A-Za-z@]+\*?)\}")
_NEW = frozenset(("newcommand", "renewcommand", "providecommand", "DeclareRobustCommand", "DeclareMathOperator"))
_OLD = frozenset(("def", "gdef", "edef", "xdef"))
_XPARSE = frozenset(f"{verb}DocumentCommand" for verb in ("New", "Renew", "Provide", "Declare"))
_ENVIRONMENTS = frozenset(("newenvironment", "renewenvironment"))
_LET = re.compile(r"\s*+\\([A-Za-z@]++)\s*+=?\s*+\\([A-Za-z@]+)")
_DEFINING = _NEW | _OLD | _XPARSE | _ENVIRONMENTS
_HEADING = re.compile(r"\\@startsection\s*+\{(\w{1,30})\}")
_SPACE = re.compile(r"\s*")


def closings(source: str) -> dict[int, int]:
    """{the place of an opening brace: that of its closing brace}"""
    found: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACES.finditer(source):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            found[opened.pop()] = brace.start()
    return found


class Macros:
    """The macros of one document."""

    def __init__(self, source_chars: int) -> None:
        self._known: dict[str, tuple[int, str | None, str]] = {}
        """{name: number of arguments, default of the first one, body}"""
        self._aliases: dict[str, str] = {}
        """{name of \\let: command of LaTeX that it stands for}"""
        self._active: list[str] = []
        self._left = MAX_GROWTH * source_chars + (1 << 16)

    def expand(self, source: str, depth: int = 0) -> str:
        """The source without definitions and with every macro replaced. Raises ReadFault: `macros_without_end`."""
        return self._expand(source, 0, len(source), closings(source), depth)

    def _expand(self, source: str, at: int, stop: int, close: dict[int, int], depth: int) -> str:
        """A part of the source. Arguments in arguments are parts of one source: no level holds the places of braces."""
        self._left -= stop - at + 32  # an empty macro takes work, too
        if depth > MAX_DEPTH or self._left < 0:
            raise ReadFault(
                "macros_without_end", f"deeper than {MAX_DEPTH}, or longer than {MAX_GROWTH} times its source"
            )
        found: list[str] = []
        while (word := _WORD.search(source, at, stop)) is not None:
            found.append(source[at : word.start()])
            name, at = word[1], word.end()
            if (
                name in ("begin", "end")
                and (opened := _NAME.match(source, at))
                and f"{name} {opened[1]}" in self._known
            ):
                name, at = f"{name} {opened[1]}", opened.end()
            if name in _DEFINING:
                after = self._define(name, source, at - word[0].endswith("*"), close)
                at = at if after is None else after
            elif name == "let" and (pair := _LET.match(source, at)):
                at = pair.end()
                self._let(pair[1], pair[2])
            elif name in self._known:
                given, at = self._given(name, source, at, stop, close)
                if name not in self._active:  # one that uses itself has a condition for its end, which is not known
                    text = self._written(name, [self._expand(*one, depth + 1) for one in given])
                    self._active.append(name)
                    found.append(self.expand(text, depth + 1))
                    self._active.pop()
            else:
                found.append(f"\\{self._aliases[name]}" if name in self._aliases else word[0])
        found.append(source[at:stop])
        return "".join(found)

    def _define(self, kind: str, source: str, at: int, close: dict[int, int]) -> int | None:
        """Where a definition ends; None if it is not one."""
        if kind in _OLD:
            found = _DEF.match(source, at)
        elif kind in _XPARSE:
            found = _DOCUMENT.match(source, at)
        elif kind in _ENVIRONMENTS:
            found = _ENVIRONMENT.match(source, at)
        else:
            found = _DEFINES.match(source, at)
        if found is None or (end := close.get(found.end())) is None:
            return None
        body = source[found.end() + 1 : end]
        if kind in _ENVIRONMENTS:
            after = _SPACE.match(source, end + 1).end()  # type: ignore[union-attr]  # it matches anywhere
            if (last := close.get(after)) is None:
                return None
            self._known[f"begin {found[1]}"] = (int(found[2] or 0), found[3], body)
            self._known[f"end {found[1]}"] = (0, None, source[after + 1 : last])
            return last + 1
        if heading := _HEADING.search(body):  # how a heading looks, which is not text
            self._let(next(filter(None, found.groups())), heading[1])
        elif kind in _OLD:
            if not found[3].strip():  # else its arguments end at a sign
                self._known[found[1]] = (found[2].count("#"), None, body)
        elif kind in _XPARSE:
            default = "" if found[3] else found[4]
            if not found[6].strip():
                self._known[found[1] or found[2]] = (found[5].count("m") + (default is not None), default, body)
        else:
            body = f"\\operatorname{{{body}}}" if kind == "DeclareMathOperator" else body
            self._known[found[1] or found[2]] = (int(found[3] or 0), found[4], body)
        return end + 1

    def _let(self, name: str, other: str) -> None:
        """Gives a macro, or a command of LaTeX, another name, whatever happens to the first one later."""
        self._known.pop(name, None)
        self._aliases.pop(name, None)
        if other in self._known:
            self._known[name] = self._known[other]
        elif name != other:
            self._aliases[name] = self._aliases.get(other, other)

    def _given(
        self, name: str, source: str, at: int, stop: int, close: dict[int, int]
    ) -> tuple[list[tuple[str, int, int, dict[int, int]]], int]:
        """The arguments of a macro as parts of a source, and where its use ends."""
        count, default, _ = self._known[name]
        given: list[tuple[str, int, int, dict[int, int]]] = []
        if default is not None:
            if source.startswith("[", at) and (end := source.find("]", at, min(stop, at + 1000))) >= 0:
                default, at = source[at + 1 : end], end + 1
            given.append((default, 0, len(default), closings(default)))
        while len(given) < count:
            start = min(_SPACE.match(source, at).end(), stop)  # type: ignore[union-attr]  # it matches anywhere
            if (end := close.get(start, -1)) >= 0:
                given.append((source, start + 1, end, close))
                at = end + 1
            else:
                token = _WORD.match(source, start, stop)
                at = token.end() if token else min(start + 1, stop)
                given.append((source, start, at, close))
        if not count and source.startswith("{}", at):
            at += 2
        return given, at

    def _written(self, name: str, given: list[str]) -> str:
        """The body with its arguments."""
        body = self._known[name][2]
        grown = sum(map(len, given)) * (body.count("#") + 1)
        if grown > self._left:
            raise ReadFault("macros_without_end", f"longer than {MAX_GROWTH} times its source")
        return _ARGUMENT.sub(lambda one: given[int(one[1]) - 1] if int(one[1]) <= len(given) else "", body)
