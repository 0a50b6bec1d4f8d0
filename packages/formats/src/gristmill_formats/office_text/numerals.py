"""Numbers of lists, headings and notes as word processors write them: 3, 03, c, C, iii, III."""

_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MOST_ROMAN = 4000
_MOST_LETTERS = 26 * 20
MOST = 10**9


def numeral(number: int, form: str) -> str:
    """`form`: `i`, `I`, `a`, `A`, `01`; anything else is decimal, and so is a number that the form cannot write."""
    if form.lower() == "i" and 0 < number < _MOST_ROMAN:
        text = ""
        for value, letters in _ROMAN:
            text += letters * (number // value)
            number %= value
    elif form.lower() == "a" and 0 < number < _MOST_LETTERS:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    else:
        return f"{number:02d}" if form == "01" else str(number)
    return text.upper() if form.isupper() else text


def whole(text: str | None, default: int) -> int:
    """A number of a document, or the default for anything else."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < len(str(MOST)) else default
