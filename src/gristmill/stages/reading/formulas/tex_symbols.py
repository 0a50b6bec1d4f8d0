"""Converts characters to TeX: operators, letters of every style, words, and how pieces are joined.

The result is always balanced: each open brace is closed, and a brace of the text is escaped. A character without a
command stays as it is, which LaTeX with unicode-math can read.
"""

import re
import unicodedata
from collections.abc import Iterable

from gristmill.data_files import read_table
from gristmill.kernels.text.unicode_data import known

_TABLES = read_table(__file__, "tex_symbols.toml")


def _by_character(name: str) -> dict[str, str]:
    return {character: value for value, characters in _TABLES[name].items() for character in characters.split()}


def _commands(name: str) -> dict[str, str]:
    return {character: command for command, characters in _TABLES[name].items() for character in characters}


def _alternating(name: str) -> dict[str, str]:
    words = _TABLES[name].split()
    return dict(zip(words[::2], words[1::2], strict=True))


WITH_LIMITS = frozenset(_TABLES["limits"].split())
"""Limits under these functions belong to them, as under a sum."""
FUNCTIONS = WITH_LIMITS.union(_TABLES["names"].split())
BIG = frozenset(_TABLES["big"])
OPEN, CLOSE = frozenset(_TABLES["open"]), frozenset(_TABLES["close"])
BARS = _by_character("bars")
"""Fences that look the same on both sides. Two of them are relations, unless an element declares a fence."""
PRIMES = {character: int(count) for character, count in _by_character("primes").items()}
ARROWS = {character: f"\\{command}" for character, command in _commands("arrows").items()}
"""Arrows that grow with the text above them."""
LINES = frozenset(_TABLES["lines"])
"""Lines over a letter that grow with it; one that must not grow is a bar."""
OVER = {accent: (over_one, over_more) for over_one, over_more, accents in _TABLES["over"] for accent in accents.split()}
"""The command of an accent over one letter, and over several."""
UNDER = _commands("under")
_SPACES = _TABLES["spaces"]
_OPERATORS = _TABLES["operators"]
_SYMBOLS = {
    **{character: f"\\{command}" for character, command in _alternating("commands").items()},
    **_alternating("others"),
    **_SPACES,
}
VARIANTS = {variant: tuple(commands.split()) for variant, commands in _TABLES["variants"].items()}
"""Values of `mathvariant`: commands, the outer one first."""
_BOLD = "\\boldsymbol"
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u200a-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Controls, joiners, invisible operators (times, function application), variation selectors."""
_NEGATED = "\u0338\u20d2"


def _styled_letters() -> dict[str, tuple[str, str]]:
    """Letters and digits of the mathematical alphabets: the plain character and its style."""
    latin = "bold italic bold-italic script bold-script fraktur double-struck bold-fraktur sans-serif bold-sans-serif "
    latin += "sans-serif-italic sans-serif-bold-italic monospace"
    greek = "bold italic bold-italic bold-sans-serif sans-serif-bold-italic"
    digits = "bold double-struck sans-serif bold-sans-serif monospace"
    blocks = ((0x1D400, 52, latin), (0x1D6A8, 58, greek), (0x1D7CE, 10, digits))
    letters = {
        chr(first + size * place + at): style
        for first, size, block in blocks
        for place, style in enumerate(block.split())
        for at in range(size)
    }
    letters |= {**dict.fromkeys("ℂℍℕℙℚℝℤⅆⅅⅇⅈⅉℽℾℿ⅀", "double-struck"), **dict.fromkeys("ℬℰℱℋℐℒℳℛℯℊℴ", "script")}
    letters |= {**dict.fromkeys("ℭℌℨ", "fraktur"), "𝚤": "italic", "𝚥": "italic"}
    # The double-struck d, e, i, j mark a differential and constants by meaning, not by appearance.
    letters |= dict.fromkeys("ⅅⅆⅇⅈⅉ", "italic")
    plain = {char: (unicodedata.normalize("NFKC", char), style) for char, style in letters.items()}
    return {char: pair for char, pair in plain.items() if pair[0] != char}


_STYLED = _styled_letters()
_ENDS_IN_COMMAND = re.compile(r"\\[A-Za-z]+\Z")
_SINGLE = re.compile(r"\\(?:[A-Za-z]+(?:\{[^{}]*\})?|.)|[0-9.,]+")
_TEXT_ESCAPES = {
    **{ord(char): "\\" + char for char in "{}$%#&_"},
    ord("\\"): "\\textbackslash{}",
    ord("~"): "\\textasciitilde{}",
    ord("^"): "\\textasciicircum{}",
    **dict.fromkeys(map(ord, _SPACES), " "),
}


def is_single(piece: str) -> bool:
    """Whether a script that follows applies to the whole piece and is its only one."""
    return (len(piece) == 1 and piece != "'") or (len(piece) < 64 and bool(_SINGLE.fullmatch(piece)))


def join(pieces: Iterable[str], numbers: bool = True) -> str:
    """Joins pieces. A space separates a command from a letter and, with `numbers`, a number from a number before it,
    even if a comma is between them: `(0, 1)` is not a decimal fraction.
    """
    out: list[str] = []
    for piece in filter(None, pieces):
        before = out[-1] if out else ""
        if numbers and before == "," and len(out) > 1:
            before = out[-2]
        if piece[0] == "'" and not (is_single(before) or before.endswith(("'", ")", "]"))):
            out.append("{}")  # a prime is a superscript, and two superscripts are an error
        elif before and (
            (known(piece[0]).isalpha() and _ENDS_IN_COMMAND.search(before[-40:]))
            or (numbers and known(piece[0]).isdecimal() and known(before[-1]).isdecimal())
        ):
            out.append(" ")
        out.append(piece)
    return "".join(out)


def symbols(text: str) -> str:
    """Converts characters in mathematics one by one; a run of one style becomes one group."""
    pieces: list[str] = []
    run, run_style = "", ""
    text = _UNSEEN.sub("", text)
    for place, char in enumerate(text):
        letter, style = _STYLED.get(char, (char, ""))
        if run and style != run_style:
            pieces.append(styled(run, run_style))
            run = ""
        if style:
            run, run_style = run + letter, style
        elif char not in _NEGATED:
            tex = _SYMBOLS.get(char, char)
            if text[place + 1 : place + 2] in tuple(_NEGATED):
                tex = "\\neq" if tex == "=" else "\\not" + tex
            pieces.append(tex)
    if run:
        pieces.append(styled(run, run_style))
    return join(pieces, numbers=False)


def styled(text: str, variant: str) -> str:
    """Characters in the style of a `mathvariant`. Without a TeX alphabet for it, they are bold or plain."""
    tex, commands = symbols(text), VARIANTS.get(variant, ())
    if not (text.isascii() and text.isalnum()):
        commands = (_BOLD,) if tex and "bold" in variant else ()
    return "".join(command + "{" for command in commands) + tex + "}" * len(commands)


def has_symbols(text: str) -> bool:
    """Whether it contains letters with mathematical commands, so that it is hardly a word."""
    return any(char.isalpha() and (char in _SYMBOLS or char in _STYLED) for char in text)


def plain_italics(text: str) -> str:
    """The letters of several italic ones of the mathematical alphabets, which are one name; else nothing."""
    letters = [_STYLED.get(char, ("h" if char == "ℎ" else "", "italic")) for char in text]
    return (
        "".join(letter for letter, _ in letters)
        if len(text) > 1 and all(letter and style == "italic" for letter, style in letters)
        else ""
    )


def operator(text: str) -> str:
    """An operator, as the text of one element."""
    return _OPERATORS.get(text) or symbols(text)


def words(text: str, command: str = "\\text") -> str:
    """Text inside mathematics, with its spaces. Only blanks become one space; an empty text stays empty."""
    plain = re.sub(" +", " ", _UNSEEN.sub("", text).translate(_TEXT_ESCAPES))
    return f"{command}{{{plain}}}" if plain.strip() else "\\ " if plain else ""
