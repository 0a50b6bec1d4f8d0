"""Converts MathML to LaTeX, for formulas without TeX, and finds the TeX of elements with the class `math`.

A formula may be tag soup. It is read in one pass and converted from the inside out, so that nothing recurses. A formula
beyond the bounds below becomes its plain text, or nothing. A formula without an end tag (a page cut short, a paragraph
that ends first) is left as it is.

Lost are: sizes, colours, spacing except `mspace`, lines and frames of tables, columns that span others, numbers of
equations (`mlabeledtr`), invisible content (`mphantom`), the kind of a strike, all choices of an `maction` except the
selected one, long division and columns of sums (`mstack`: its rows one after the other), and content MathML except its
words and numbers. Letters in separate elements stay separate: `<mi>s</mi><mi>i</mi><mi>n</mi>` is `sin`, not `\\sin`.
LaTeX decides whether an integral's bounds are beside or above it.
"""

import html
import re
from collections.abc import Iterator

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.reading.formulas.mathml_elements import HIDDEN, KNOWN, TOKENS, VOID, build
from gristmill.stages.reading.formulas.mathml_tokens import Element, TexPart
from gristmill.stages.reading.formulas.tex_symbols import FUNCTIONS, OVER, join, styled, symbols, words

MAX_DEPTH = 200
"""Nested elements. Wikipedia articles reach 10."""
MAX_TAGS = 50_000
"""Tags of one formula: 0.6 s."""
MAX_TEX_CHARS = 65_536
"""Characters of one formula."""

_S = r"[ \t\n\f\r]"
_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+(?:>|\Z)|<(?P<end>/?)(?P<name>[A-Za-z][^ \t\n\f\r/>]*+)"
    rf"(?P<attributes>(?:[^>=]++|={_S}*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?+)*+)(?:>|\Z)",
    re.DOTALL,
)
"""A tag or a comment. Anything unclosed continues to the end of the page, so that no text is scanned twice."""
_ATTRIBUTE = re.compile(rf"([^\s=/>]+){_S}*(?:={_S}*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")
_LONG_REFERENCE = re.compile(r"&#[0-9]{20,};?")
"""Refers to no character; Python refuses to parse numbers of thousands of digits."""
_RAW_NAMES = "iframe noembed noframes script style textarea title xmp"
_RAW = {name: re.compile(f"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE) for name in _RAW_NAMES.split()}
_ENDS = frozenset(
    (
        f"{_RAW_NAMES} address article aside blockquote body dd details div dl dt fieldset figcaption figure footer "
        "form h1 h2 h3 h4 h5 h6 head header hr html li main nav ol p pre section table tbody td tfoot th thead tr ul"
    ).split()
)
"""Elements that cannot be in a formula: a formula that is open there was never closed."""
_TEX_ATTRIBUTES = ("alttext", "data-latex")
_TEX_ENCODINGS = frozenset(("application/x-tex", "tex", "latex"))


def with_latex(page: bytes) -> bytes:
    """The page with LaTeX as `alttext` instead of each formula without TeX; everything else is unchanged."""
    text = page.decode("utf-8", "surrogateescape")
    out: list[str] = []
    done = at = pictures_end = 0

    def put(begin: int, end: int, alttext: str, display: bool) -> None:
        nonlocal done
        for char, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
            alttext = alttext.replace(char, escaped)
        out.append(text[done:begin])
        formula = f'<math display="{"block" if display else "inline"}" alttext="{alttext}"></math>'
        out.append(f"<div>{formula}</div>" if text.startswith("<div", begin) else formula)
        done = end

    while tag := _TAG.search(text, at):
        at = tag.end()
        name = _name(tag)
        if not name or tag["end"]:
            continue
        if name in _RAW:
            end = _RAW[name].search(text, at)
            if end and name == "script" and _attributes(tag).get("type", "").lower().startswith("math/mml"):
                formula = text[at : end.start()]
                block = 'display="block"' in formula or "display" in _attributes(tag)["type"]
                put(tag.start(), end.start(), latex(formula), block)
            at = end.start() if end else len(text)
        elif name == "math" and not tag["attributes"].endswith("/"):
            attributes = _attributes(tag)
            at, closed, has_tex = _formula(text, at)
            if closed and not (has_tex or any(attributes.get(name, "").strip() for name in _TEX_ATTRIBUTES)):
                block = attributes.get("display") == "block" or attributes.get("mode") == "display"
                put(tag.start(), at, latex(text[tag.start() : at]), block)
        elif name in ("span", "div") and "math" in tag["attributes"]:
            classes = _attributes(tag).get("class", "").split()
            if classes[:1] != ["math"]:
                continue
            tex, tex_end = plain_math(text, at, name)
            if tex:
                put(tag.start(), tex_end, tex, name == "div" or "display" in classes)
                at = tex_end
            elif name == "div" and at > pictures_end >= 0:
                pictures_end = text.find("</div", at)
        elif name == "img":
            # The kernel takes a picture after MathML for the same formula, so none is left in a page that gets some.
            attributes = _attributes(tag)
            is_formula = at < pictures_end or attributes.get("class", "").split()[:1] == ["math"]
            if is_formula and (alttext := attributes.get("alt", "")):
                put(tag.start(), at, alttext, display=at < pictures_end)
    out.append(text[done:])
    return "".join(out).encode("utf-8", "surrogateescape")


_SCRIPT_SIGNS = {"sub": "_", "sup": "^"}
_STYLES = {"em": "", "i": "", "b": "bold", "strong": "bold"}
_WORD = "[A-Za-zÀ-ÖØ-öø-ÿ]{2,}"
_PIECE = re.compile(rf"(\w)([\u0300-\u036f\u20d0-\u20ff])|(\s?{_WORD}(?:\s{_WORD})*\s?)|\d+|\S")
_TEX_SIGN = re.compile(r"[\\^_{]")


def plain_math(text: str, at: int, name: str) -> tuple[str, int]:
    """The TeX of an element with the class `math` and its end; nothing if it is not only TeX or letters and scripts.

    pandoc writes TeX for KaTeX, or `<em>x</em><sup>2</sup>`; jsMath and Sphinx write TeX.
    """
    levels: list[list[str]] = [[]]
    style, whole, is_tex = "normal", "", True
    for tag in _TAG.finditer(text, at):
        content, at = _unescape(text[at : tag.start()]), tag.end()
        whole += content
        if len(whole) > MAX_TEX_CHARS:
            break
        levels[-1] += _plain_pieces(content, style)
        found, is_end = _name(tag), bool(tag["end"])
        if is_end and found == name:
            is_tex &= whole.isascii() or bool(_TEX_SIGN.search(whole))
            return "" if len(levels) > 1 else whole if is_tex else join(levels[0]), at
        is_tex = False
        if found in _STYLES:
            style = "normal" if is_end else _STYLES[found]
        elif found not in _SCRIPT_SIGNS or (len(levels) == 1 if is_end else len(levels) > MAX_DEPTH):
            break
        elif is_end:
            script = join(levels.pop())
            levels[-1].append(_SCRIPT_SIGNS[found] + (script if len(script) == 1 else f"{{{script}}}"))
        else:
            levels.append([])
    return "", at


def _plain_pieces(content: str, style: str) -> Iterator[str]:
    for piece in _PIECE.finditer(known(content)):
        accent, word = OVER.get(piece[2] or ""), piece[3]
        if accent:
            yield f"\\{accent[0]}{{{styled(piece[1], style)}}}"
        elif word and style == "normal":
            is_function = FUNCTIONS.issuperset(word.split())
            yield " ".join(map("\\{}".format, word.split())) if is_function else words(re.sub(r"\s", " ", word))
        else:
            yield styled(piece[0], style if piece[0].isalpha() else "")


def latex(markup: str) -> str:
    """The LaTeX of one element, without dollar signs."""
    try:
        answer = _convert(markup)
    except _TooMuchError:
        texts = (_unescape(text) for text in _texts(markup))
        answer = words(" ".join(" ".join(texts).split()))
    return answer if len(answer) <= MAX_TEX_CHARS else ""


def _formula(text: str, at: int) -> tuple[int, bool, bool]:
    """Where the formula that began before `at` ends; whether by its own end tag; whether it contains TeX."""
    depth, has_tex = 1, False
    for tag in _TAG.finditer(text, at):
        name = _name(tag)
        if name in _ENDS:
            return tag.start(), False, has_tex
        if name == "math":
            depth += -1 if tag["end"] else not tag["attributes"].endswith("/")
            if not depth:
                return tag.end(), True, has_tex
        elif name == "annotation" and not tag["end"]:
            has_tex |= _attributes(tag).get("encoding", "").strip().lower() in _TEX_ENCODINGS
    return len(text), False, has_tex


def _name(tag: re.Match[str]) -> str:
    """The name without prefix (`mml:math`); empty for a comment."""
    return (tag["name"] or "").rpartition(":")[2].lower()


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(tag["attributes"]):
        found.setdefault(name.lower(), _unescape("".join(values)))
    return found


def _unescape(text: str) -> str:
    return html.unescape(_LONG_REFERENCE.sub("\ufffd", text)) if "&" in text else text


def _texts(markup: str) -> list[str]:
    """The text between the tags, outside annotations."""
    texts, at, hidden = [], 0, 0
    for tag in _TAG.finditer(markup):
        if not hidden:
            texts.append(markup[at : tag.start()])
        if _name(tag) in HIDDEN and not tag["attributes"].endswith("/"):
            hidden = max(0, hidden + (-1 if tag["end"] else 1))
        at = tag.end()
    return [*texts, "" if hidden else markup[at:]]


class _TooMuchError(Exception):
    """The formula exceeds a bound."""


def _convert(markup: str) -> str:
    stack = [Element("math", {})]
    at = 0
    for count, tag in enumerate(_TAG.finditer(markup)):
        if count > MAX_TAGS:
            raise _TooMuchError
        _add_text(stack[-1], markup[at : tag.start()])
        at = tag.end()
        name = _name(tag)
        if not name:
            continue
        if tag["end"]:
            if any(element.name == name for element in stack[:0:-1]):
                while stack[-1].name != name:
                    _close(stack)
                _close(stack)
            continue
        if stack[-1].name in TOKENS:
            if name not in KNOWN:
                continue  # <b>, <span>, <br>: their text belongs to the token
            if stack[-1].name != "mtext":
                _close(stack)  # it contains only text, so its end tag is missing
        stack.append(Element(name, _attributes(tag) if tag["attributes"] else {}))
        if tag["attributes"].endswith("/") or name in VOID:
            _close(stack)
        elif len(stack) - 1 > MAX_DEPTH:
            raise _TooMuchError
    _add_text(stack[-1], markup[at:])
    while len(stack) > 1:
        _close(stack)
    return build(stack[0]).tex


def _add_text(element: Element, text: str) -> None:
    """Text belongs in a token. Elsewhere, words become words and everything else symbols."""
    if not text or element.name in HIDDEN:
        return
    if len(text) > MAX_TEX_CHARS:
        raise _TooMuchError
    text = _unescape(text)
    if element.name in TOKENS:
        element.parts.append(TexPart("", "loose", text))
    elif text.strip():
        spoken = re.search(r"[^\W\d_]{2}", known(text))
        plain = words(re.sub(r"\s+", " ", text)) if spoken else symbols("".join(text.split()))
        element.parts.append(TexPart(plain, "loose", text))


def _close(stack: list[Element]) -> None:
    element = stack.pop()
    if element.name not in HIDDEN:
        part = build(element)
        if len(part.tex) + len(part.text) > 2 * MAX_TEX_CHARS:
            raise _TooMuchError
        stack[-1].parts.append(part)
