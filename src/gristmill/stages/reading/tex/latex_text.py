"""LaTeX to plain text, after macros are expanded: prose, headings, lists, tables as rows; formulas stay TeX."""

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise

from gristmill.stages.reading.tex.expand import closings

_TOKEN = re.compile(
    r"\\begin\s*\{([A-Za-z]+\*?)\}|\\end\s*\{([A-Za-z]+\*?)\}|\\([A-Za-z@]+)\*?[ \t]*|\\(.)"
    r"|(\$\$?)|([{}~&])|(---?|``|'')",
    re.DOTALL,
)
_MATH = frozenset(("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "alignat"))
_ROWS = dict.fromkeys(("align", "eqnarray", "flalign"), "aligned") | dict.fromkeys(("gather", "multline"), "gathered")
"""{environment: the one that has its rows inside $$}"""
_CUT = frozenset(
    (
        "thebibliography",
        "comment",
        "picture",
        "pspicture",
        "tikzpicture",
        "pgfpicture",
        "CCSXML",
        "filecontents",
        "rawhtml",
    )
)
_STATEMENTS = {
    name: label
    for label, names in re.findall(
        r"(\w+)=(\S+)",
        "Theorem=theorem,thm Lemma=lemma,lem,lemm Proposition=proposition,prop Corollary=corollary,cor,coro "
        "Definition=definition,defn,def Remark=remark,rem,rmk Example=example,ex,exam Proof=proof Claim=claim "
        "Conjecture=conjecture,conj Exercise=exercise Problem=problem Situation=situation Question=question",
    )
    for name in names.split(",")
}
"""{environment: what a reader sees before its text}"""
_TABLES = frozenset(("tabular", "tabularx", "tabulary", "tabu", "longtable", "array", "supertabular"))
_WIDE = frozenset(("tabular*", "tabularx", "tabulary", "wrapfigure", "wraptable", "list"))
_SIZED = frozenset(("minipage", "multicols", "column", "subfigure", "subtable", "adjustbox", "spacing"))
_GROUPS = dict.fromkeys(_TABLES | _SIZED, 1) | dict.fromkeys(_WIDE, 2)
"""{environment: how many groups after its name are not text}"""
_HEADINGS = frozenset(
    (
        "part",
        "chapter",
        "section",
        "subsection",
        "subsubsection",
        "paragraph",
        "caption",
        "title",
        "frametitle",
        "framesubtitle",
        "subparagraph",
    )
)
_CITES = frozenset(
    re.findall(
        r"\w+",
        "cite Cite citet Citet citep citealt citealp citeauthor citeyear citeyearpar textcite Textcite parencite"
        " autocite footcite supercite smartcite citetext",
    )
)
_IN_BRACKETS = frozenset(("citep", "parencite", "autocite", "footcite", "citeyearpar"))
_ONE_GROUP = (
    "label ref eqref pageref autoref cref Cref nocite includegraphics vspace hspace vskip hskip usepackage"
    " documentclass bibliographystyle bibliography pagestyle thispagestyle index color textcolor href hypersetup cline"
    " graphicspath pagenumbering input include bibinfo author date thanks affiliation email address institute keywords"
    " urladdr curraddr subjclass dedicatory inst orcid pacs preprint lstinputlisting verbatiminput includepdf"
    " includesvg ccsdesc received markright phantom hphantom vphantom raisebox scalebox rotatebox parbox captionsetup"
    " sisetup geometry lstset tikzset pgfplotsset usetikzlibrary usetheme RequirePackage newlength newcounter"
    " stepcounter refstepcounter setlist write openin openout cmidrule hyphenation subfile pgfuseimage pgfdeclareimage"
    " citestyle crefname bibdata addbibresource tag"
)
_TWO_GROUPS = (
    "setlength addtolength setcounter addtocounter newtheorem rule multicolumn multirow fontsize inputminted resizebox"
    " markboth addtocontents settowidth settoheight lstdefinestyle lstdefinelanguage DeclareSIUnit colorlet import"
    " pdfbookmark"
)
_NOT_TEXT = (
    dict.fromkeys(_ONE_GROUP.split(), 1)
    | dict.fromkeys(_TWO_GROUPS.split(), 2)
    | dict.fromkeys(("addcontentsline", "definecolor"), 3)
)
"""{command: how many groups after it are not text}"""
_NOTES = frozenset(("footnote", "footnotetext"))
_LETTERS = re.findall(
    r"(\w+)=(\S)",
    "ss=ß o=ø O=Ø ae=æ AE=Æ aa=å AA=Å l=ł L=Ł oe=œ OE=Œ i=i j=j S=§ P=¶ copyright=© pounds=£ textdegree=°",
)
_SIGNS = {
    **dict(_LETTERS),
    **dict.fromkeys(("ldots", "dots"), "..."),
    **dict.fromkeys(("quad", "qquad"), " "),
    "textendash": "–",
    "textemdash": "—",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "newline": "\n",
    "par": "\n\n",
}
_QUANTITIES = dict(re.findall(r"(\w+)=(\w+)", "SI=nu qty=nu si=u unit=u num=n ang=a SIrange=nnu qtyrange=nnu"))
"""{command of siunitx: whether each group is a number, a unit or an angle}"""
_PREFIXES = "kilo=k mega=M giga=G tera=T peta=P centi=c milli=m micro=µ nano=n pico=p femto=f deci=d hecto=h per=/"
_UNITS = dict(
    re.findall(
        r"(\w+)=(\S+)",
        f"{_PREFIXES} metre=m meter=m second=s gram=g kilogram=kg ampere=A kelvin=K mole=mol candela=cd hertz=Hz"
        " pascal=Pa newton=N joule=J watt=W coulomb=C volt=V farad=F ohm=Ω tesla=T henry=H electronvolt=eV litre=L"
        " liter=L hour=h minute=min day=d degree=° celsius=°C degreeCelsius=°C percent=% squared=^2 square=^2 cubed=^3"
        " cubic=^3 byte=B angstrom=Å tonne=t decibel=dB radian=rad dalton=Da",
    )
)
_JOINED = frozenset(pair.partition("=")[2] for pair in _PREFIXES.split())
"""Signs that the next one follows without a space."""
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
_ACCENTED = re.compile(r"\s*(?:\{\s*\\?([A-Za-z])\s*\}|\\?([A-Za-z]))")
_DASHES = {"--": "–", "---": "—", "``": '"', "''": '"'}
_OPTION = re.compile(r"\s*\[([^\[\]]{0,1000})\]")
_ROW_END = re.compile(r"\*?(?:[ \t]*\[[ \t]*[-\d.\\][^\[\]\n]{0,40}\])?")
_LENGTH = re.compile(r"(?:\w*(?:skip|indent|width|height|sep|kern|margin|penalty)|[hv]size|raise|lower)")
_DIMENSION = (
    r"-?(?:\d{0,4}[.,]?\d{1,4})?\s?(?:true\s?)?(?:pt|pc|in|bp|cm|mm|dd|cc|sp|ex|em|fil{1,3}|\\[A-Za-z@]{1,30})\b"
)
_ASSIGNED = re.compile(rf"\s*+(?:=\s*+)?(?:{_DIMENSION}(?:\s*+(?:plus|minus)\s*+{_DIMENSION}){{0,2}}|-?\d{{1,6}}\b)")
_STREAM = re.compile(r"\s*(?:-?\d{1,3}|\\[A-Za-z@]{1,40})(?:\s*=?\s*[^\s{}\\=]{1,200})?")
"""The number of a file, and its name: \\openin5=notes.txt, \\write18{...}."""
_BETWEEN = re.compile(r"\s*\([^()\n]{0,40}\)")
_COMMAND = re.compile(r"\s*\\[A-Za-z@]{1,60}")
_LABEL = re.compile(r"\\label\s*\{[^{}]{0,200}\}|\\(?:nonumber|notag)\b")
_OVERLAY = re.compile(r"<(?=[^<>\n]{0,40}[\d+])[-+\d,.@|a-z: ]{1,40}>")
"""The slides on which beamer shows something: \\item<1->"""
_STATED = re.compile(r"\s*+\\label\s*+\{[^{}]{0,200}\}[ \t]*+\n?")
_DOLLAR = re.compile(r"(?<!\\)\$")
_BLANK = re.compile(r"\n[ \t]*+\n\s*+")
_SPACES = re.compile(r"[ \t]{2,}")
_GAPS = re.compile(r"(?<! \|) (?=[,.](?:\s|$)|\))")
"""A space that is left before a sign where a reference was."""


class LatexText:
    """Renders one document. `kept` are verbatim parts, marked by their number between two zeros; `cited` has labels,
    `theorems` what the document calls its statements."""

    def __init__(self, cited: Mapping[str, str], kept: list[str], theorems: Mapping[str, str] | None = None) -> None:
        self._cited, self._kept = cited, kept
        self._statements = {**_STATEMENTS, **(theorems or {})}

    def text(self, source: str) -> str:
        close = closings(source)
        out: list[str] = []
        after: dict[int, str] = {}  # what is written at a closing brace
        missing: set[str] = set()
        tables = at = 0
        while (token := _TOKEN.search(source, at)) is not None:
            out.append(source[at : token.start()] if tables == 0 else source[at : token.start()].replace("\n", " "))
            at = token.end()
            begin, end, word, sign, dollar, mark, dash = token.groups()
            if begin:
                name = begin.rstrip("*")
                if name in _MATH or name in _CUT:
                    formula, at = self._up_to(source, at, f"\\end{{{begin}}}", missing)
                    out.append(_formula(formula, True, _ROWS.get(name)) if name in _MATH else "")
                else:
                    tables += name in _TABLES
                    option = _OPTION.match(source, at)
                    at = self._skip(source, at, close, _GROUPS.get(begin, _GROUPS.get(name, 0)))
                    out.append("\n\n")
                    if label := self._statements.get(begin, _STATEMENTS.get(name)):
                        out.append(f"{label} ({option[1]}). " if option and "\\" not in option[1] else f"{label}. ")
                        at = found.end() if (found := _STATED.match(source, at)) else at
            elif end:
                tables -= tables > 0 and end.rstrip("*") in _TABLES
                out.append("\n\n")
            elif dollar or (sign and sign in "(["):
                ending = {"(": "\\)", "[": "\\]"}.get(sign or "", dollar or "")
                formula, at = self._up_to(source, at, ending, missing)
                out.append(_formula(formula, dollar == "$$" or sign == "["))
            elif word:
                if source.startswith("<", at) and (overlay := _OVERLAY.match(source, at)):
                    at = overlay.end()
                text, at = self._command(word, source, at, close, after)
                out.append(text)
            elif sign:
                if sign in _ACCENTS and (letter := _ACCENTED.match(source, at)):
                    out.append(unicodedata.normalize("NFC", (letter[1] or letter[2]) + _ACCENTS[sign]))
                    at = letter.end()
                else:
                    if sign == "\\" and (ended := _ROW_END.match(source, at)):
                        at = ended.end()
                    out.append({"\\": "\n", ",": " ", ";": " ", ":": " ", "!": "", "-": "", "/": ""}.get(sign, sign))
            elif mark == "}":
                out.append(after.pop(at - 1, ""))
            elif mark:
                out.append({"~": " ", "&": " | " if tables else "&"}.get(mark, ""))
            else:
                out.append(_DASHES[dash])
        out.append(source[at:])
        return _tidy("".join(out), self._kept)

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
        """The place after an option and a number of groups."""
        if option := _OPTION.match(source, at):
            at = option.end()
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
        if word in _SIGNS:
            return _SIGNS[word], at
        if word in _CITES:
            start = self._skip(source, at, close, 0)
            if (option := _OPTION.match(source, start)) is not None:
                start = option.end()
            stop = self._skip(source, start, close, 1)
            labels = [self._cited.get(key.strip(), "") for key in source[start + 1 : stop - 1].split(",")]
            if word in ("citeauthor", "citeyear", "citeyearpar"):  # Smith, 2005
                labels = [label.rpartition(", ")[0 if word == "citeauthor" else 2] for label in labels]
            shown = "; ".join(label for label in labels if label)
            return (f"({shown})" if shown and word in _IN_BRACKETS else shown), stop
        if word == "item":
            option = _OPTION.match(source, at)
            return f"\n- {option[1]} " if option else "\n- ", option.end() if option else at
        if word in _LETTER_ACCENTS and (letter := _ACCENTED.match(source, at)):
            return unicodedata.normalize("NFC", (letter[1] or letter[2]) + _LETTER_ACCENTS[word]), letter.end()
        if word in ("openin", "openout", "write") and (stream := _STREAM.match(source, at)):
            at = stream.end()
        elif word == "cmidrule" and (between := _BETWEEN.match(source, at)):
            at = between.end()
        elif _LENGTH.fullmatch(word) and (assigned := _ASSIGNED.match(source, at)):
            return "", assigned.end()
        if word in _QUANTITIES:
            return self._quantity(word, source, at, close)
        if word == "xspace":
            return " " if source[at : at + 1].isalnum() or source[at : at + 1] in ("(", "\\", "$") else "", at
        if word in _NOT_TEXT:
            return "", self._skip(source, at, close, _NOT_TEXT[word])
        at = self._skip(source, at, close, 0)
        if word.endswith(("TeX", "TeXe")):
            return word, at
        if word in _HEADINGS or word in _NOTES:
            if (end := close.get(at)) is not None:
                after[end] = "\n\n" if word in _HEADINGS else ")"
            return "\n\n" if word in _HEADINGS else " (", at
        return "", at

    def _quantity(self, word: str, source: str, at: int, close: Mapping[int, int]) -> tuple[str, int]:
        """A number or unit of siunitx: 3 km/s"""
        found: list[str] = []
        at = self._skip(source, at, close, 0)
        for kind in _QUANTITIES[word]:
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
        sign = _UNITS.get(name, name)
        ends = not parts or parts[-1] in _JOINED or sign[:1] in "/^"
        parts += (sign,) if ends else (" ", sign)
    return "".join(parts)


def _formula(source: str, is_display: bool, rows: str | None = None) -> str:
    formula = " ".join(_LABEL.sub("", source).split())
    if not formula:
        return ""
    if rows and ("&" in formula or "\\\\" in formula):
        formula = f"\\begin{{{rows}}}{formula}\\end{{{rows}}}"
    return f"\n\n$${formula}$$\n\n" if is_display else f"${formula}$"


def _tidy(text: str, kept: list[str]) -> str:
    """Paragraphs of one line each; lines of lists and tables stay."""
    paragraphs = []
    for block in _BLANK.split(text):
        found: list[str] = []
        was_row = True  # the first line follows none
        for line in filter(None, map(str.strip, block.split("\n"))):
            is_row = " | " in line
            found += ["\n" if is_row or was_row or line.startswith("- ") else " ", line]
            was_row = is_row
        if joined := "".join(found).strip(" |\n"):
            paragraphs.append(_GAPS.sub("", _SPACES.sub(" ", joined)))
    text = "".join(
        ("\n" if one.startswith("- ") and before.startswith("- ") else "\n\n") + one
        for before, one in pairwise(["", *paragraphs])
    )
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text).strip("\n")
