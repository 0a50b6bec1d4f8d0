"""The text of a document in XML: paragraphs, lists, tables, formulas. A format says which element plays which role."""

import re
from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element, tostring

from gristmill.stages.reading.formulas.mathml import latex
from gristmill.stages.reading.raised import raised, write
from gristmill_formats.office_text.numerals import whole
from gristmill_formats.omml import mathml

Roles = Mapping[str, str]
"""{element: role}. Elements without a role are part of the text around them. The roles: `skip`; `block` (a paragraph or
a heading); `pre`; `code` (a line of code, after which the next one follows); `list`, `numbered`, `item`, `mark` (an
item without a list); `row`, `cell`; `break`, `tab`, `space` (`c` of them); `note` (written at the end); `sup`, `sub`;
`cite` (a reference, left out if it has no letters); `gone` (a mark that is left out); `reading` (of a word, written in
brackets); `table` (its rows are apart from those of another one); `tex`, `math`, `either` (several forms of a formula,
of which the TeX one is written)."""

_EMPTY_BRACKETS = re.compile(r" ?(?:\([\s,;–-]*\)|\[[\s,;–-]*\])")
_LEFT_OUT_MARKS = re.compile("\\s?\x02(?:[\\s,;–-]*+\x02)*+")
_DOLLARS = re.compile(r"^(\${1,2}|\\\[|\\\()|(\${1,2}|\\\]|\\\))$")
_MOST_SPACES = 200
_LEFT_OUT = "\x02"
_LINE = "\x0b"
_HYPHEN = "\xad"
"""Where a word may be divided; it is not shown."""


class Writer:
    """Collects the blocks of one document. The tree's depth is bounded (`parse_xml`), so it may recurse."""

    def __init__(
        self,
        roles: Roles,
        role_of: Callable[[Element], str | None] | None = None,
        marks: Mapping[Element, tuple[int, str]] | None = None,
    ) -> None:
        """`role_of` decides by attributes, before `roles`; None leaves it to them. `marks`: the level of an item, from
        0, and what is written before it, for items that state it."""
        self._roles, self._role_of = roles, role_of
        self._marks = marks if marks is not None else {}
        self._blocks: list[tuple[str, str]] = []
        self._line: list[str] = []
        self._lists: list[int | None] = []
        self._mark = ""
        self._row: list[str] | None = None
        self._notes: list[str] = []

    def text(self) -> str:
        """The blocks, then the notes. Items and rows are on consecutive lines; an empty line is between others."""
        self._end_block("block")
        found: list[str] = []
        last, empty = "", 0
        for kind, text in self._blocks:
            if not text:
                empty += 1
                continue
            if kind == "table":
                last = ""
                continue
            between = 1 + empty * (kind == "code") if kind == last != "block" else 2
            found.append("\n" * between + text)
            last, empty = kind, 0
        return "\n\n".join(["".join(found).strip("\n"), *self._notes]).strip("\n")

    def add(self, element: Element) -> None:
        """The text of an element and of those in it, without what follows it."""
        role = (self._role_of(element) if self._role_of else None) or self._roles.get(element.tag, "")
        if role == "skip":
            return
        if role in ("block", "pre", "code"):
            self._block(element, role)
        elif role == "note":
            inner = Writer(self._roles, self._role_of, self._marks)
            inner._inside(element)
            self._notes.append(inner.text())
        elif role == "mark":
            self._lists.append(None)
            self._item(element)
            self._lists.pop()
        elif role in ("list", "numbered") and self._row is None:
            self._end_block("item" if self._lists else "block")
            self._lists.append(whole(element.get("start"), 1) - 1 if role == "numbered" else None)
            self._inside(element)
            self._end_block("item")
            self._lists.pop()
        elif role in ("item", "list", "numbered"):
            self._item(element)
        elif role == "table" and self._row is None:
            self._end_block("block")
            self._blocks.append(("table", "begin"))
            self._inside(element)
            self._end_block("block")
            self._blocks.append(("table", "end"))
        elif role == "row" and self._row is None:
            self._end_block("block")
            self._row = []
            self._inside(element)
            row, self._row = self._row, None
            self._line.clear()
            if any(row):
                self._blocks.append(("row", " | ".join(cell or "-" for cell in row)))
        elif role == "cell" and self._row is not None:
            before, self._line = self._line, []
            self._inside(element)
            self._row.append(_tidy(self._line).replace("\n", " "))
            self._line = before
        elif role in ("row", "cell"):
            self._line.append(" ")
            self._inside(element)
        elif role in ("space", "tab"):
            self._line.append("\t" if role == "tab" else " " * min(whole(element.get("c"), 1), _MOST_SPACES))
        elif role == "break":
            self._line.append(_LINE)
        elif role in ("sup", "sub"):
            content = self._apart(element)
            bare = content.replace(_LEFT_OUT, "")
            if bare == content or any(map(str.isalnum, bare)):
                self._line.append(raised("^" if role == "sup" else "_", bare))
        elif role == "gone":
            self._line.append(_LEFT_OUT)
        elif role == "reading":
            content = self._apart(element).strip()
            self._line.append(f"({content})" if content else "")
        elif role == "cite":
            content = self._apart(element)
            self._line.append(content if any(map(str.isalpha, content)) else _LEFT_OUT)
        elif role in ("tex", "math", "either"):
            self._line.append(_formula(element, role, self._roles))
        else:
            self._inside(element)

    def _inside(self, element: Element) -> None:
        if element.text:
            write(self._line, element.text)
        for child in element:
            self.add(child)
            if child.tail:
                write(self._line, child.tail)

    def _apart(self, element: Element) -> str:
        before, self._line = self._line, []
        self._inside(element)
        content, self._line = "".join(self._line), before
        return content

    def _block(self, element: Element, role: str) -> None:
        if self._row is not None:  # a paragraph in a cell
            self._line.append(" ")
            self._inside(element)
            self._line.append(" ")
            return
        kind = "item" if self._lists else "block"
        self._end_block(kind)
        self._inside(element)
        self._end_block(kind if role == "block" else role)

    def _item(self, element: Element) -> None:
        if self._row is not None or not self._lists:
            self._block(element, "block")
            return
        self._end_block("item")
        number = self._lists[-1]
        if number is not None:
            self._lists[-1] = number = whole(element.get("value"), number + 1)
        level, mark = self._marks.get(element, (len(self._lists) - 1, "-" if number is None else f"{number}."))
        self._mark = "  " * level + (f"{mark} " if mark else "")
        self._inside(element)
        self._end_block("item")
        self._mark = ""

    def _end_block(self, kind: str) -> None:
        text = _tidy(self._line)
        if kind in ("pre", "code"):
            text = "".join(self._line).replace(_LEFT_OUT, "").replace(_LINE, "\n").strip("\n")
        self._line = []
        is_written = bool(text.strip())
        if is_written:
            self._blocks.append(("block" if kind == "pre" else kind, self._mark + text))
            self._mark = " " * len(self._mark)
        elif kind == "code":  # an empty line
            self._blocks.append((kind, ""))


def _tidy(line: list[str]) -> str:
    text = "".join(line).replace(_HYPHEN, "")
    if _LEFT_OUT in text:
        text = _EMPTY_BRACKETS.sub("", _LEFT_OUT_MARKS.sub(_gap, text))
    return "\n".join(" ".join(one.split()) for one in text.split(_LINE)).strip("\n")


def _gap(found: re.Match[str]) -> str:
    """What is written for citations that are left out: no space before a sign or another space."""
    after = found.string[found.end() : found.end() + 1]
    return "" if not after or after.isspace() or after in ".,;:)]" else found[0][: found[0].index(_LEFT_OUT)]


def _formula(element: Element, role: str, roles: Roles) -> str:
    """`$...$` with the TeX that the document has, or that its MathML becomes."""
    tex = next((one for one in element.iter() if roles.get(one.tag) == "tex"), None)
    if tex is None:  # MathML with TeX as an annotation
        annotated = (one for one in element.iter("annotation") if "tex" in one.get("encoding", "").lower())
        tex = next(annotated, None)
    if tex is not None:
        content = "".join(tex.itertext())
        body = content.partition("\\begin{document}")[2].rpartition("\\end{document}")[0]
        content = " ".join((body or content).split())
        while (bare := _DOLLARS.sub("", content).strip()) != content:
            content = bare
    else:
        root = next(one for one in element.iter() if roles.get(one.tag) == "math")
        formula = mathml(root) if root.tag == "oMath" else Element("math")
        if root.tag != "oMath":
            formula.text = root.text
            formula.extend(root)
        content = latex(tostring(formula, "unicode"))
    return f"${content}$" if content else ""
