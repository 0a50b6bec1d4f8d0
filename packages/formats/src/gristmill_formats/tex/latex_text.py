"""LaTeX to plain text, after macros are expanded: prose, headings, lists, tables as rows; formulas stay TeX."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from gristmill.stages.reading.raised import raised, write
from gristmill_formats.office_text.numerals import numeral
from gristmill_formats.tex.commands import (
    ALGORITHMS,
    CITES,
    CUT,
    GROUPS,
    HEADINGS,
    IN_BRACKETS,
    JOINED,
    MATH,
    NOT_TEXT,
    NOTES,
    PAGE_REFERENCES,
    PSEUDOCODE,
    QUANTITIES,
    REFERENCES,
    ROWS,
    SIGNS,
    STATEMENTS,
    TABLES,
    TEXTUAL,
    UNITS,
)
from gristmill_formats.tex.expand import closings
from gristmill_formats.tex.references import LABEL, PAGE, marks, named, without_pages

_TOKEN = re.compile(
    r"\\begin\s*\{([A-Za-z]+\*?)\}|\\end\s*\{([A-Za-z]+\*?)\}|\\([A-Za-z@]+)\*?[ \t]*|\\(.)"
    r"|(\$\$?)|([{}~&])|(---?|``|''|`)",
    re.DOTALL,
)
_UNIT_NAME = re.compile(r"\\([A-Za-z]+)")
_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
_LETTER_ACCENTS = {
    "c": "\u0327",
    "v": "\u030c",
    "u": "\u0306",
    "H": "\u030b",
    "k": "\u0328",
    "r": "\u030a",
    "d": "\u0323",
}
_ACCENTED = re.compile(r"\s*(?:\{\s*\\?([A-Za-z])\s*\}|([A-Za-z])|\\([ij])(?![A-Za-z]))")
_DASHES = {"--": "–", "---": "—", "``": '"', "''": '"', "`": "'"}
_BRACKETS = re.compile(r"\[([^\[\]]{0,1000})\]")
_OPTION = re.compile(r"\s*" + _BRACKETS.pattern)
_ROW_END = re.compile(r"\*?(?:[ \t]*\[[ \t]*[-\d.\\][^\[\]\n]{0,40}\])?")
_LENGTH = re.compile(
    r"(?!(?:no)?indent$|(?:small|med|big|un)skip$)"
    r"(?:\w*(?:skip|indent|width|height|sep|kern|margin|penalty)|[hv]size|raise|lower)"
)
_DIMENSION = (
    r"-?(?:\d{0,4}[.,]?\d{1,4}\s?(?:true\s?)?(?:pt|pc|in|bp|cm|mm|dd|cc|sp|ex|em|fil{1,3})"
    r"|(?:\d{0,4}[.,]?\d{1,4})?\s?\\[A-Za-z@]{1,30})"
)
_ASSIGNED = re.compile(rf"\s*+(?:=\s*+)?(?:{_DIMENSION}(?:\s*+(?:plus|minus)\s*+{_DIMENSION}){{0,2}}|-?\d{{1,6}}\b) ?")
_SIZE = re.compile(rf"\s*(?:to|spread)\s*{_DIMENSION}|(?:\s*(?:height|width|depth)\s*{_DIMENSION}){{1,3}}")
"""The size of a box or rule: \\hbox to 3cm{...}"""
_STREAM = re.compile(r"\s*(?:-?\d{1,3}|\\[A-Za-z@]{1,40})(?:\s*=?\s*[^\s{}\\=]{1,200})?")
"""The number of a file, and its name: \\openin5=notes.txt, \\write18{...}."""
_BETWEEN = re.compile(r"\s*\([^()\n]{0,40}\)")
_COMMAND = re.compile(r"\s*\\[A-Za-z@]{1,60}")
_LABEL = re.compile(r"\\label\s*\{[^{}]{0,200}\}|\\(?:nonumber|notag)\b")
_OVERLAY = re.compile(r"<(?=[^<>\n]{0,40}[\d+])[-+\d,.@|a-z: ]{1,40}>")
"""The slides on which beamer shows something: \\item<1->"""
_DOLLAR = re.compile(r"(?<!\\)\$")
_BLANK = re.compile(r"\n[ \t]*+\n\s*+")
_LISTS = frozenset(("itemize", "enumerate", "description"))
_ITEM = "\x01"
"""Before the mark of an item, once for each list around it, until lines are joined."""
_LEVELS = re.compile(f"{_ITEM}+")
_TABLE_PARTS = frozenset(("endfirsthead", "endhead", "endfoot", "endlastfoot"))
_BREAK = "\x04"
"""Before a line break that the author wrote, which is a space between Chinese characters, too."""
_LINE = "\x03"
"""Before a line that is not joined to the one before it; alone, the end of a list."""
_COUNTER = re.compile(r"\{enum(?:i{1,3}|iv)\}\{(\d{1,6})\}")
_STARTS = re.compile(r"start\s*=\s*(\d{1,6})")
_RAISED = {"textsuperscript": "^", "up": "^", "textsubscript": "_"}
MAX_RAISED = 200
MAX_LISTS = 8
_SPACES = re.compile(r"[ \t]{2,}")
_GAPS = re.compile(r"(?<! \|) (?=[,.](?:\s|$)|\))")
"""A space that is left before a sign where a reference was."""


class LatexText:
    """Renders one document. `kept` are verbatim parts, marked by their number between two zeros; `cited` has labels,
    `theorems` what the document calls its statements, `referred` the labels that are used."""

    def __init__(
        self,
        cited: Mapping[str, str],
        kept: list[str],
        theorems: Mapping[str, str] | None = None,
        referred: Collection[str] = (),
    ) -> None:
        self._cited, self._kept, self._referred = cited, kept, referred
        self.titles: Mapping[str, str] = {}
        """{label: title of its section}"""
        self._statements = {**STATEMENTS, **(theorems or {})}
        self._opened: list[list[Any]] = [["", 0]]
        """The open environments, each with the number of its last item; of tabbing, where its line begins; of a
        table of several pages, where its part begins."""

    def text(self, source: str) -> str:
        close = closings(source)
        out: list[str] = []
        after: dict[int, str] = {}  # what is written at a closing brace
        missing: set[str] = set()
        tables = at = 0
        while (token := _TOKEN.search(source, at)) is not None:
            between = source[at : token.start()]
            write(out, between if tables == 0 else between.replace("\n", " "))
            at = token.end()
            begin, end, word, sign, dollar, mark, dash = token.groups()
            if begin:
                name = begin.rstrip("*")
                if name in MATH or name in CUT:
                    formula, at = self._up_to(source, at, f"\\end{{{begin}}}", missing)
                    out.append(_formula(formula, True, ROWS.get(name), self._referred) if name in MATH else "")
                else:
                    tables += name in TABLES
                    if size := _SIZE.match(source, at):  # \\begin{tabu} to 5cm
                        at = size.end()
                    option = _OPTION.match(source, at)
                    at = self._skip(source, at, close, GROUPS.get(begin, GROUPS.get(name, 0)))
                    starts = _STARTS.search(option[1]) if option and name == "enumerate" else None
                    first = int(starts[1]) - 1 if starts else 0
                    self._opened.append([name, len(out) if name == "tabbing" else first])
                    out.append("\n\n")
                    if label := self._statements.get(begin, STATEMENTS.get(name)):
                        stated = self._apart(option[1]) if option else ""
                        found = LABEL.match(source, at)
                        label += f" [{found[1].strip()}]" if found and found[1].strip() in self._referred else ""
                        out.append(f"{label} ({stated}). " if stated else f"{label}. ")
                        at = found.end() if found else at
            elif end:
                tables -= tables > 0 and end.rstrip("*") in TABLES
                if len(self._opened) > 1:
                    self._opened.pop()
                out.append(f"\n\n{_LINE}\n\n" if end in _LISTS else "\n\n")
            elif dollar or (sign and sign in "(["):
                ending = {"(": "\\)", "[": "\\]"}.get(sign or "", dollar or "")
                formula, at = self._up_to(source, at, ending, missing)
                out.append(_formula(formula, dollar == "$$" or sign == "["))
            elif word == "kill" and self._opened[-1][0] == "tabbing":  # a line that only sets the tabs
                del out[self._opened[-1][1] :]
            elif word in _TABLE_PARTS and self._opened[-1][0] in ("longtable", "supertabular"):
                if self._opened[-1][1] and word != "endfirsthead":  # the head or foot of later pages
                    del out[self._opened[-1][1] :]
                self._opened[-1][1] = len(out)
            elif word:
                if source.startswith("<", at) and (overlay := _OVERLAY.match(source, at)):
                    at = overlay.end()
                text, at = self._command(word, source, at, close, after)
                out.append(text)
            elif sign:
                if self._opened[-1][0] == "tabbing" and sign in "=><+-'`":
                    out.append(" ")
                elif sign in _ACCENTS and (letter := _ACCENTED.match(source, at)):
                    out.append(unicodedata.normalize("NFC", (letter[1] or letter[2] or letter[3]) + _ACCENTS[sign]))
                    at = letter.end()
                else:
                    if sign == "\\" and (ended := _ROW_END.match(source, at)):
                        at = ended.end()
                        if self._opened[-1][0] == "tabbing":
                            self._opened[-1][1] = len(out) + 1
                    out.append(
                        {"\\": f"{_BREAK}\n", ",": " ", ";": " ", ":": " ", ">": " "}.get(
                            sign, "" if sign in "!-/+<@*" else sign
                        )
                    )
            elif mark == "}":
                write(out, after.pop(at - 1, ""))
            elif mark:
                out.append({"~": " ", "&": " | " if tables else "&"}.get(mark, ""))
            else:
                out.append(_DASHES[dash])
        write(out, source[at:])
        return _tidy("".join(out), self._kept)

    def _apart(self, source: str) -> str:
        """The text of an option or a short group, in one line."""
        return LatexText(self._cited, self._kept).text(source).replace("\n", " ")

    def _item(self) -> str:
        """What is written before an item without a label: a dash, or its number."""
        depth = sum(name == "enumerate" for name, _ in self._opened[-MAX_LISTS:])
        if self._opened[-1][0] != "enumerate":
            return "-"
        self._opened[-1][1] = number = self._opened[-1][1] + 1
        return f"({numeral(number, 'a')})" if depth == 2 else f"{numeral(number, ' 1aiA'[min(depth, 4)])}."

    def _up_to(self, source: str, at: int, ending: str, missing: set[str]) -> tuple[str, int]:
        """The source up to an ending, and the place after it. Without an ending, or if a paragraph ends before it,
        nothing is taken: a missing $ spoils one paragraph, as in TeX."""
        end = -1
        if ending not in missing:
            found = _DOLLAR.search(source, at) if ending == "$" else None
            end = found.start() if found else source.find(ending, at) if ending != "$" else -1
        if end < 0:
            missing.add(ending)
            return "", at
        if ending in ("$", "\\)") and _BLANK.search(source, at, end):
            return "", at
        return source[at:end], end + len(ending)

    def _skip(self, source: str, at: int, close: Mapping[int, int], groups: int) -> int:
        """The place after options and a number of groups."""
        option = _OPTION.match(source, at)
        while option:  # \\makebox[3cm][c]
            at = option.end()
            option = _OPTION.match(source, at) if source.startswith("[", at) else None
        for _ in range(groups):
            if option := _OPTION.match(source, at):
                at = option.end()
            if (end := close.get(at)) is not None:
                at = end + 1
            elif groups > 1 and (command := _COMMAND.match(source, at)):  # \\setlength\\parindent{0pt}
                at = command.end()
            else:
                break
        return at

    def _command(
        self, word: str, source: str, at: int, close: Mapping[int, int], after: dict[int, str]
    ) -> tuple[str, int]:
        if word in SIGNS:
            return SIGNS[word], at
        if word in CITES:
            return self._citation(word, source, at, close)
        if word in REFERENCES or word in PAGE_REFERENCES:
            stop = self._skip(source, at, close, 1)
            start = source.find("{", at, stop)
            if word in PAGE_REFERENCES or start < 0:
                return PAGE, stop
            return named(source[start + 1 : stop - 1], self.titles), stop
        if word == "item":
            option = _OPTION.match(source, at)
            mark = f"- {self._apart(option[1])}" if option else self._item()
            level = sum(name in _LISTS for name, _ in self._opened[-MAX_LISTS:])
            return f"\n{_ITEM * max(level, 1)}{mark.rstrip()} ", option.end() if option else at
        if word in _LETTER_ACCENTS and (letter := _ACCENTED.match(source, at)):
            return unicodedata.normalize(
                "NFC", (letter[1] or letter[2] or letter[3]) + _LETTER_ACCENTS[word]
            ), letter.end()
        if word in ("openin", "openout", "write") and (stream := _STREAM.match(source, at)):
            at = stream.end()
        elif word in ("hbox", "vbox", "vtop", "hrule", "vrule"):
            return "", size.end() if (size := _SIZE.match(source, at)) else at
        elif word == "cmidrule" and (between := _BETWEEN.match(source, at)):
            at = between.end()
        elif _LENGTH.fullmatch(word) and (assigned := _ASSIGNED.match(source, at)):
            return "", assigned.end()
        if (words := PSEUDOCODE.get(word.lower())) and self._opened[-1][0] in ALGORITHMS:
            if words[1] and (end := close.get(at)) is not None:
                after[end] = f" {words[1]}"
            return ("" if word.lower() == "comment" else f"\n{_LINE}") + f"{words[0]} ", at
        if word in QUANTITIES:
            return self._quantity(word, source, at, close)
        if word in _RAISED and (end := close.get(at)) is not None and end - at < MAX_RAISED:
            return raised(_RAISED[word], self._apart(source[at + 1 : end])), end + 1
        if word == "xspace":
            return " " if source[at : at + 1].isalnum() or source[at : at + 1] in ("(", "\\", "$") else "", at
        if word == "setcounter" and self._opened[-1][0] == "enumerate" and (counter := _COUNTER.match(source, at)):
            self._opened[-1][1] = int(counter[1])
        if word in NOT_TEXT:
            return "", self._skip(source, at, close, NOT_TEXT[word])
        if word in ("subfloat", "subfigure", "subtable"):  # [in the list of figures][below the figure]{figure}
            end = self._skip(source, at, close, 0)
            options = list(_BRACKETS.finditer(source, at, end))
            return f"\n\n{self._apart(options[-1][1])}\n\n" if options else "", end
        at = self._skip(source, at, close, 0)
        if word.endswith(("TeX", "TeXe")):
            return word, at
        if word in HEADINGS or word in NOTES or word == "enquote":
            opening, closing = ("\n\n", "\n\n") if word in HEADINGS else (" (", ")") if word in NOTES else ('"', '"')
            if (end := close.get(at)) is not None:
                after[end] = closing
                label = LABEL.match(source, end + 1) if word == "caption" else None
                if label and label[1].strip() in self._referred:
                    opening += f"[{label[1].strip()}] "
            return opening, at
        return "", at

    def _citation(self, word: str, source: str, at: int, close: Mapping[int, int]) -> tuple[str, int]:
        """Smith (2005), or (see Smith, 2005, p. 3): author and year with the notes around them."""
        notes: list[str] = []
        while (option := _OPTION.match(source, at)) and len(notes) < 2:
            notes.append(self._apart(option[1]))
            at = option.end()
        stop = self._skip(source, at, close, 1)
        labels = [self._cited.get(key.strip(), "") for key in source[at + 1 : stop - 1].split(",")]
        found = [label.rpartition(", ") for label in labels if label]
        before = f"{notes[0]} " if len(notes) == 2 and notes[0] else ""
        after = f", {notes[-1]}" if notes and notes[-1] else ""
        if word in TEXTUAL:
            shown = [f"{author} ({year})" for author, _, year in found]
            if shown:
                shown[-1] = f"{shown[-1][:-1]}{after})"
            return before + "; ".join(shown) if shown else "", stop
        part = {"citeauthor": 0, "citeyear": 2, "citeyearpar": 2}.get(word)
        text = "; ".join("".join(label) if part is None else label[part] for label in found)
        text = f"{before}{text}{after}" if text else ""
        return (f"({text})" if text and word in IN_BRACKETS else text), stop

    def _quantity(self, word: str, source: str, at: int, close: Mapping[int, int]) -> tuple[str, int]:
        """A number or unit of siunitx: 3 km/s"""
        found: list[str] = []
        at = self._skip(source, at, close, 0)
        for kind in QUANTITIES[word]:
            if (end := close.get(at)) is None:
                break
            group, at = source[at + 1 : end], end + 1
            found.append(_unit(group) if kind == "u" else group.replace(";", " ") if kind == "n" else f"{group}°")
        return " ".join(filter(None, found)), at


def _unit(source: str) -> str:
    """\\kilo\\metre\\per\\second is km/s; a unit in letters stays."""
    if "\\" not in source:
        return source.replace(".", " ").replace("~", " ")
    parts: list[str] = []
    for name in _UNIT_NAME.findall(source):
        sign = UNITS.get(name, name)
        ends = not parts or parts[-1] in JOINED or sign[:1] in "/^"
        parts += (sign,) if ends else (" ", sign)
    return "".join(parts)


def _formula(source: str, is_display: bool, rows: str | None = None, referred: Collection[str] = ()) -> str:
    formula = " ".join(_LABEL.sub("", source).split())
    if not formula:
        return ""
    if rows and ("&" in formula or "\\\\" in formula):
        formula = f"\\begin{{{rows}}}{formula}\\end{{{rows}}}"
    return f"\n\n$${formula}$${marks(source, referred)}\n\n" if is_display else f"${formula}$"


def _is_wide(sign: str) -> bool:
    """Chinese and Japanese, in which a line break is no space."""
    return "\u3000" <= sign <= "\u9fff" or "\uff00" <= sign <= "\uffef"


def _tidy(text: str, kept: list[str]) -> str:
    """Paragraphs of one line each; lines of lists and tables stay."""
    paragraphs = []
    mark = ""  # of an item whose text begins after an empty line
    for block in _BLANK.split(text):
        lines = [line for line in map(str.strip, block.split("\n")) if line.strip(_BREAK)]
        if mark and lines and not lines[0].startswith((_ITEM, _LINE)):
            lines[0] = f"{mark} {lines[0]}"
        if lines:
            mark = lines.pop() if lines[-1].startswith(_ITEM) and " " not in lines[-1] else ""
        found: list[str] = []
        was_row, is_broken = True, False  # the first line follows none
        for line in lines:
            is_row = " | " in line
            is_new = is_row or was_row or line.startswith((_ITEM, _LINE))
            is_whole = not is_broken and not is_new and _is_wide(found[-1][-1:]) and _is_wide(line[:1])
            found += ["\n" if is_new else "" if is_whole else " ", line.rstrip(f" {_BREAK}")]
            was_row, is_broken = is_row, line.endswith(_BREAK)
        if (joined := "".join(found).strip(" |\n")) and joined != _LINE:
            paragraphs.append(_GAPS.sub("", _SPACES.sub(" ", joined)))
    text = "".join(
        ("\n" if one.startswith((_ITEM, _LINE)) and before.startswith((_ITEM, _LINE)) else "\n\n") + one
        for before, one in pairwise(["", *paragraphs])
    )
    text = without_pages(text)
    text = _LEVELS.sub(lambda found: "  " * (len(found[0]) - 1), text).replace(f"{_LINE} ", "").replace(_LINE, "")
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text).strip("\n")
