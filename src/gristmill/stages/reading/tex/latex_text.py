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
_CUT = frozenset(("thebibliography", "comment", "tikzpicture", "pgfpicture", "CCSXML", "filecontents"))
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
_TABLES = frozenset(("tabular", "tabularx", "longtable", "array", "supertabular"))
_HEADINGS = frozenset(("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "caption", "title"))
_CITES = frozenset(("cite", "citet", "citep", "citealt", "citealp", "citeauthor", "citeyear", "textcite", "parencite"))
_ONE_GROUP = (
    "label ref eqref pageref autoref cref Cref nocite includegraphics vspace hspace vskip hskip usepackage"
    " documentclass bibliographystyle bibliography pagestyle thispagestyle index color textcolor href hypersetup cline"
    " graphicspath pagenumbering input include bibinfo author date thanks affiliation email address institute keywords"
    " inst orcid pacs preprint fontsize"
)
_TWO_GROUPS = "setlength addtolength setcounter addtocounter newtheorem rule multicolumn multirow"
_NOT_TEXT = dict.fromkeys(_ONE_GROUP.split(), 1) | dict.fromkeys(_TWO_GROUPS.split(), 2)
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
    **{name: name for name in ("LaTeX", "TeX", "BibTeX")},
    "textendash": "–",
    "textemdash": "—",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "newline": "\n",
    "par": "\n\n",
}
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
_OPTION = re.compile(r"\s*\[([^\[\]]{0,400})\]")
_LABEL = re.compile(r"\\label\s*\{[^{}]{0,200}\}|\\(?:nonumber|notag)\b")
_STATED = re.compile(r"\s*+\\label\s*+\{[^{}]{0,200}\}[ \t]*+\n?")
_DOLLAR = re.compile(r"(?<!\\)\$")
_BLANK = re.compile(r"\n[ \t]*\n\s*")
_SPACES = re.compile(r"[ \t]{2,}")


class LatexText:
    """Renders one document. `kept` are verbatim parts, marked by their number between two zeros; `cited` has labels."""

    def __init__(self, cited: Mapping[str, str], kept: list[str]) -> None:
        self._cited, self._kept = cited, kept

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
                    out.append(_formula(formula, True) if name in _MATH else "")
                else:
                    tables += name in _TABLES
                    option = _OPTION.match(source, at)
                    at = self._skip(source, at, close, int(name in _TABLES))
                    out.append("\n\n")
                    if label := _STATEMENTS.get(name):
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
                text, at = self._command(word, source, at, close, after)
                out.append(text)
            elif sign:
                if sign in _ACCENTS and (letter := _ACCENTED.match(source, at)):
                    out.append(unicodedata.normalize("NFC", (letter[1] or letter[2]) + _ACCENTS[sign]))
                    at = letter.end()
                else:
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
        """The source up to an ending, and the place after it. Without an ending, nothing is taken."""
        end = -1
        if ending not in missing:
            found = _DOLLAR.search(source, at) if ending == "$" else None
            end = found.start() if found else source.find(ending, at) if ending != "$" else -1
        if end < 0:
            missing.add(ending)
            return "", at
        return source[at:end], end + len(ending)

    def _skip(self, source: str, at: int, close: Mapping[int, int], groups: int) -> int:
        """The place after an option and a number of groups."""
        if option := _OPTION.match(source, at):
            at = option.end()
        for _ in range(groups):
            if option := _OPTION.match(source, at):
                at = option.end()
            if (end := close.get(at)) is None:
                break
            at = end + 1
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
            shown = "; ".join(label for label in labels if label)
            return (f"({shown})" if shown and word in ("citep", "parencite") else shown), stop
        if word == "item":
            option = _OPTION.match(source, at)
            return f"\n- {option[1]} " if option else "\n- ", option.end() if option else at
        if word in _LETTER_ACCENTS and (letter := _ACCENTED.match(source, at)):
            return unicodedata.normalize("NFC", (letter[1] or letter[2]) + _LETTER_ACCENTS[word]), letter.end()
        if word in _NOT_TEXT:
            return "", self._skip(source, at, close, _NOT_TEXT[word])
        at = self._skip(source, at, close, 0)
        if word in _HEADINGS or word in _NOTES:
            if (end := close.get(at)) is not None:
                after[end] = "\n\n" if word in _HEADINGS else ")"
            return "\n\n" if word in _HEADINGS else " (", at
        return "", at


def _formula(source: str, is_display: bool) -> str:
    formula = " ".join(_LABEL.sub("", source).split())
    if not formula:
        return ""
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
            paragraphs.append(_SPACES.sub(" ", joined).replace(" ,", ",").replace(" .", ".").replace(" )", ")"))
    text = "".join(
        ("\n" if one.startswith("- ") and before.startswith("- ") else "\n\n") + one
        for before, one in pairwise(["", *paragraphs])
    )
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text).strip("\n")
