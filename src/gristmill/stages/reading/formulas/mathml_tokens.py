"""Converts the tokens of MathML (identifiers, numbers, operators, words, spaces) to LaTeX parts."""

import re
from dataclasses import dataclass, field

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.reading.formulas import tex_symbols as tex
from gristmill.stages.reading.formulas.tex_symbols import join


@dataclass(slots=True)
class TexPart:
    """A piece of LaTeX, with what its neighbours and its parent need to know about it."""

    tex: str
    kind: str = ""
    """The role of the part: loose text, space, open, close, bar (fences), prime, big (takes limits), named (a
    function), upright (a letter), fenced, sub, sup, subsup, table, row, atop, prescripts."""
    text: str = ""
    """The characters of a token; for a table or a row, the content between \\begin and \\end."""
    tall: bool = False
    """Whether fences around it must grow."""
    fixed: bool = False
    """Whether a fence must not grow."""
    columns: int = 0
    """The columns of a table or a row."""


@dataclass(slots=True)
class Element:
    name: str
    attributes: dict[str, str]
    parts: list[TexPart] = field(default_factory=list)

    def characters(self) -> str:
        """The text of a token without surrounding white space; no-break spaces stay."""
        return re.sub("[ \t\n\f\r]+", " ", "".join(part.text for part in self.parts)).strip(" ")


_WORD = re.compile(r"[^\W\d_]{2}")
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]{2,}(?: [A-Za-z0-9]+)*")
_COMMAND = re.compile(r"\\[A-Za-z]+")
"""What MathJax and LaTeXML write for a command that they do not know."""
_LETTER_AND_DIGITS = re.compile(r"[A-Za-z][0-9]+")


def identifier(element: Element) -> TexPart:
    text, variant = " ".join(element.characters().split()), element.attributes.get("mathvariant", "")
    if name := tex.plain_italics(text):
        text, variant = name, "italic"
    function = text.replace(" ", "")
    if function in tex.FUNCTIONS and variant in ("", "normal"):
        return TexPart("\\" + function, "big" if function in tex.WITH_LIMITS else "", text)
    if text and all(char in tex.PRIMES for char in text):
        return TexPart("'" * sum(tex.PRIMES[char] for char in text), "prime", text)
    if _NAME.fullmatch(text) and not _LETTER_AND_DIGITS.fullmatch(text) and variant in ("", "normal", "italic"):
        if " " in text:
            return TexPart(tex.words(text), "named", text)
        return TexPart(f"\\math{'it' if variant == 'italic' else 'rm'}{{{text}}}", "named", text)
    if _WORD.search(known(text)) and not (text.isascii() and variant) and not tex.has_symbols(text):
        return TexPart(tex.words(text), "", text)
    upright = variant == "normal" and len(text) == 1 and text.isascii() and text.isalpha()
    return TexPart(tex.styled(text, variant), "upright" if upright else "", text)


def number(element: Element) -> TexPart:
    text = element.characters()
    upright = "normal" if _WORD.search(known(text)) else ""
    return TexPart(tex.styled(text, element.attributes.get("mathvariant", upright)), "", text)


def operator(element: Element) -> TexPart:
    text, attributes = element.characters(), element.attributes
    text = {"Σ": "∑", "Π": "∏"}.get(text, text)  # as an operator the letter is the sum
    if attributes.get("accent") == "true":
        text = {"¯": "‾", "‾": "¯"}.get(text, text)  # pandoc exchanges the bar and the line over a formula
    form = attributes.get("form", "")
    if not text and (attributes.get("fence") == "true" or form in ("prefix", "postfix")):
        return TexPart("", "open" if form == "prefix" else "close")
    if text == "mod":
        return TexPart("\\bmod", "", text)
    if _WORD.search(known(text)) or (text and all(char in tex.PRIMES for char in text)):
        part = identifier(element)
        if part.tex.startswith("\\mathrm"):
            part.tex = f"\\operatorname{{{text}}}"
        return part
    kind = "open" if text in tex.OPEN else "close" if text in tex.CLOSE else "big" if text in tex.BIG else ""
    if text in tex.BARS and form in ("prefix", "postfix"):
        text, kind = tex.BARS[text], {"prefix": "open", "postfix": "close"}[form]
    elif text in tex.BARS.values():
        kind = "bar"
    bold = "bold" in attributes.get("mathvariant", "") and kind in ("", "big")
    answer = tex.styled(text, "bold") if bold else tex.operator(text)
    return TexPart(answer, kind, text, tall=kind == "big", fixed=attributes.get("stretchy") == "false")


_TEXT_STYLES = {"bold": "\\textbf", "italic": "\\textit", "monospace": "\\texttt"}


def text(element: Element) -> TexPart:
    """Words; formulas among them stay formulas."""
    command = _TEXT_STYLES.get(element.attributes.get("mathvariant", ""), "\\text")
    if all(part.kind == "loose" for part in element.parts):
        text = element.characters()
        if _COMMAND.fullmatch(text):
            return TexPart(text)
        return TexPart(tex.words(text, command), "", text)
    pieces, run = [], ""
    for part in element.parts:
        if part.kind == "loose":
            run += part.text
            continue
        pieces += [tex.words(re.sub(r"\s+", " ", run), command), part.tex]
        run = ""
    return TexPart(join([*pieces, tex.words(re.sub(r"\s+", " ", run), command)]))


def string(element: Element) -> TexPart:
    quotes = element.attributes.get("lquote", '"'), element.attributes.get("rquote", '"')
    return TexPart(tex.words(quotes[0] + element.characters() + quotes[1]))


_NAMED_SPACES = {
    "veryverythin": 1,
    "verythin": 2,
    "thin": 3,
    "medium": 4,
    "thick": 5,
    "verythick": 6,
    "veryverythick": 7,
}
"""Eighteenths of an em."""


def space(element: Element) -> TexPart:
    stated = element.attributes.get("width", "").strip()
    width = re.match(r"(-?[0-9]*\.?[0-9]+)(em|ex|px|pt|rem|mu)?", stated)
    name = stated.removesuffix("mathspace").removeprefix("negative")
    if width and len(width[1]) < 9:
        ems = float(width[1]) / {"ex": 2, "px": 16, "pt": 12, "mu": 18}.get(width[2], 1)
    else:
        ems = _NAMED_SPACES.get(name, 0) / (-18 if stated.startswith("negative") else 18)
    steps = ((1.5, "\\qquad"), (0.7, "\\quad"), (0.25, "\\;"), (0.2, "\\:"), (0.1, "\\,"), (-0.1, ""))
    return TexPart(next((space for least, space in steps if ems >= least), "\\!"), "space")
