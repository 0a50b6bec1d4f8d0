"""Wikitext to plain text, in one pass and in time linear in its length.

Templates that carry text are written out, formulas become `$...$`, tables become rows, references are cut. Nothing is
looked up: a template is known by its name, and other templates leave nothing.
"""

import html
import re
from collections.abc import Callable, Iterator

from gristmill.stages.reading.raised import raised, write
from gristmill_formats.wiki.templates import CITATION, UNSHOWN, template_text

MAX_DEPTH = 40
"""Templates and links that are inside each other. Those further inside are not expanded."""

_HIDDEN = (
    "ref references gallery timeline imagemap score hiero templatedata graph mapframe indicator style script inputbox"
    " categorytree includeonly"
)
_SHOWN = "nowiki math chem ce pre source syntaxhighlight poem"
_OPAQUE = re.compile(rf"<(?:(!--)|({'|'.join((_HIDDEN + ' ' + _SHOWN).split())})\b([^<>]*)>)", re.IGNORECASE)
"""Comments, and tags inside which there is no wikitext, or none that counts."""
_CUT = frozenset(_HIDDEN.split())
_PLAIN_LINK = re.compile(r"\[\[(?:[^\[\]{}|<>\n:]{1,255}\|)?+([^\[\]{}|<>\n:]{1,255})\]\]")
_PARAMETER = re.compile(r"\{\{\{[^{}|\n]{1,99}(?:\|([^{}]*))?\}\}\}")
_VARIANTS = re.compile(r"-\{(?:([A-Za-z;-]{0,40})\|)?([^{}]*)\}-")
_VARIANT = re.compile(r"\s*zh(?:-[a-z]{2,4})?\s*:([^;]*)")
_TOKEN = re.compile(
    r"(\{\{|\}\}|\[\[|\]\]?|\[(?:(?:https?|ftp|irc|news):|mailto:)?//[^\s\[\]<>\"]*[ \t]*|\[mailto:\S*"
    r"|</?[a-zA-Z][^<>\n]*>)"
)
_TAG = re.compile(r"<(/?)([a-zA-Z0-9]+)")
_BREAKS = {
    **dict.fromkeys(("br", "tr", "p", "div", "table", "ul", "ol", "dl", "blockquote", "center", "hr"), "\n"),
    **dict.fromkeys(("td", "th"), " | "),
    "li": "\n* ",
}
_QUOTES = re.compile("''+")
_ELIDED = re.compile(r"'''(?=\w)(?:(?<=\b\w''')|(?<=\b\w\w'''))")
_INTERWIKI = re.compile(r"[a-z]{2,3}(?:-[a-z]{1,8}){0,2}:|simple:")
# These begin with a fixed character, which `re` finds at the speed of memory; `^` would be tried at every character.
_SWITCH = re.compile(r"__[^\Wa-z\d]{3,40}?__")
_LISTED = re.compile(r"\n([*#:;]+)[ \t]*+(?:[.,;][ \t]*+)*+(?=(\n)?)")
_HEADING = re.compile(r"\n(={1,6})([^=\n][^\n]*)=[ \t]*(?=\n)")
_KEPT = re.compile("\0(\\d+)\0")
_EMPTY_BRACKETS = re.compile(r" \([ ,;:]*\)")
_AFTER_BRACKET = re.compile(r"\( *[,;:][ ,;:]*")
_BLANK = re.compile(r"\n\n\n+")
_ATTRIBUTES = re.compile(
    r"(?:\s*+(?:colspan|rowspan|style|class|align|valign|bgcolor|width|height|scope|data-sort-value)\s*+=\s*+"
    r"(?:\"[^\"]*+\"|[^\s\"]++))++"
)
_CELLS = re.compile(r"\|\||!!")


class _Frame:
    """An opened template, link or tag, and what is in it."""

    __slots__ = ("kind", "out")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.out: list[str] = []


def plain_text(source: str, title: str = "", unshown: frozenset[str] = UNSHOWN) -> str:
    """The text that a reader of the page sees. `unshown` are the namespaces whose links show a picture or nothing. The
    source has no zeros, and lines end with \\n."""
    kept: list[str] = []
    source = "".join(_without_opaque(source, kept))
    if "{{{" in source:
        source = _PARAMETER.sub(r"\1", source)
    if "-{" in source:
        source = _VARIANTS.sub(_variant, source)
    source = "".join(_PLAIN_LINK.split(source))
    text = _without_quotes(f"\n{_expanded(source, title, unshown)}\n")
    if (first := text.find("{|")) >= 0:
        first = text.rfind("\n", 0, first) + 1
        text = text[:first] + "\n".join(_without_tables(text[first:]))
    if "&" in text:
        text = html.unescape(text)
    if "__" in text:
        text = _SWITCH.sub("", text)
    text = _AFTER_BRACKET.sub("(", _EMPTY_BRACKETS.sub("", text).replace("\xa0", " "))
    text = _with_content(_LISTED.sub(_list_marks(), text.replace(" \n", "\n")))
    return _BLANK.sub("\n\n", _KEPT.sub(lambda found: kept[int(found[1])], text)).strip()


def _without_opaque(source: str, kept: list[str]) -> Iterator[str]:
    """Cuts comments and references. Formulas and code become marks: their number in `kept` between two zeros."""
    at = 0
    unclosed: set[str] = set()
    while (found := _OPAQUE.search(source, at)) is not None:
        yield source[at : found.start()]
        at = found.end()
        if found[1]:
            end = source.find("-->", at)
            at = len(source) if end < 0 else end + 3
            continue
        name = found[2].lower()
        if found[3].endswith("/"):
            continue
        end = -1 if name in unclosed else _closing(source, name, at)
        if end < 0:
            unclosed.add(name)
            continue
        content, at = source[at:end], source.find(">", end) + 1
        if name == "poem":
            yield f"\n{content}\n"
        elif name not in _CUT:
            kept.append(_shown(name, content, found[3]))
            yield f"\0{len(kept) - 1}\0"
    yield source[at:]


_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in (_HIDDEN + " " + _SHOWN).split()}


def _closing(source: str, name: str, at: int) -> int:
    found = _CLOSING[name].search(source, at)
    return found.start() if found else -1


def _shown(name: str, content: str, attributes: str) -> str:
    content = html.unescape(content)
    if name == "math" and "chem" not in attributes:
        formula = " ".join(content.split())
        return f"$${formula}$$" if "block" in attributes else f"${formula}$"
    if name in ("math", "chem", "ce"):
        return f"$\\ce{{{' '.join(content.split())}}}$"
    if name == "nowiki":
        return content
    return "\n\n" + content.strip("\n") + "\n\n"


def _expanded(source: str, title: str, unshown: frozenset[str]) -> str:
    """Templates, links and tags, by a stack of those that are open. What is never closed keeps its text."""
    top = _Frame("")
    stack = [top]
    opened = {"{{": 0, "[[": 0, "[": 0, "sup": 0, "sub": 0}
    pieces = _TOKEN.split(source)

    def close(kind: str) -> str:
        """Closes the innermost one of a kind, with those left open in it, and returns its content."""
        nonlocal top
        while True:
            opened[top.kind] -= 1
            content = "".join(top.out)
            closed = stack.pop()
            top = stack[-1]
            if closed.kind == kind:
                return content
            top.out.append(content)

    top.out.append(pieces[0])
    rest = iter(pieces)
    next(rest)
    for token, after in zip(rest, rest, strict=True):
        kind = token[0]
        if kind == "<":
            _tag(token, stack, opened, close)
            top = stack[-1]
        elif token == "{{" or kind == "[":
            if len(stack) <= MAX_DEPTH:
                top = _Frame(token if token in opened else "[")
                stack.append(top)
                opened[top.kind] += 1
        elif token == "}}":
            if opened["{{"]:
                text = template_text(close("{{"), title)
                if text[:1] == CITATION:
                    text = text[1:] if _is_in_sentence(top.out) else ""
                if text:
                    top.out.append(text)
                elif after[:1] == " " and (not top.out or top.out[-1][-1:] in " \n"):
                    after = after[1:]  # the spaces on both sides of what is left out
        elif token == "]]" and opened["[["]:
            text = _link_text(close("[["), unshown)
            top.out.append(text)
        elif kind == "]" and top.kind == "[":
            text = close("[")
            top.out.append(text + token[1:])
        elif token == "]":
            top.out.append(token)
        write(top.out, after)
    while len(stack) > 1:
        text = "".join(stack.pop().out)
        stack[-1].out.append(text)
    return "".join(stack[0].out)


def _is_in_sentence(out: list[str]) -> bool:
    """Whether there are words before the end of a line, in its last pieces."""
    line = "".join(out[-3:]).rpartition("\n")[2]
    return any(map(str.isalnum, line))


def _tag(token: str, stack: list[_Frame], opened: dict[str, int], close: Callable[[str], str]) -> None:
    found = _TAG.match(token)
    name = found[2].lower() if found else ""
    if name in ("sup", "sub") and not token.endswith("/>"):
        if found and not found[1]:
            if len(stack) <= MAX_DEPTH:
                stack.append(_Frame(name))
                opened[name] += 1
        elif opened[name]:
            text = raised("^" if name == "sup" else "_", close(name))
            stack[-1].out.append(text)
        return
    stack[-1].out.append(_BREAKS.get(name, "") if name != "li" or not token.startswith("</") else "")


def _variant(found: re.Match[str]) -> str:
    """-{zh-hans:A;zh-hant:B}- of Chinese editions: the first variant; a rule for titles or for other places is not
    shown."""
    if found[1] and {*found[1]} & {*"HTDR"}:
        return ""
    return first[1].strip() if (first := _VARIANT.match(found[2])) else found[2]


def _without_quotes(text: str) -> str:
    """Without marks of bold and italics. In a line where neither is closed, ''' after a letter is an apostrophe and
    '': l'''Odyssée'' is l'Odyssée."""
    parts: list[str] = []
    at = 0
    for found in _ELIDED.finditer(text):
        line = text[
            text.rfind("\n", 0, found.start()) + 1 : text.find("\n", found.end())
        ]  # text ends with a line break
        runs = [len(run) for run in _QUOTES.findall(line)]
        if sum(run != 2 for run in runs) % 2 and sum(run == 2 or run > 4 for run in runs) % 2:
            parts += (text[at : found.start()], "'")
            at = found.end()
    return "".join((*parts, text[at:])).replace("'''", "").replace("''", "")


def _link_text(content: str, unshown: frozenset[str]) -> str:
    target, bar, label = content.partition("|")
    prefix, colon, _ = target.partition(":")
    if colon and (prefix.strip().lower() in unshown or _INTERWIKI.match(target)):
        return ""
    return label if bar and label else target.lstrip(":")


def _list_marks() -> Callable[[re.Match[str]], str]:
    """Writes the marks of items; those of # are numbers, which begin again after a line that is no item."""
    counts: list[int] = []  # the number of the last item at each level
    end = 0

    def written(found: re.Match[str]) -> str:
        nonlocal end
        level = min(len(found[1]), MAX_DEPTH)
        del counts[0 if found.string.find("\n", end, found.start()) >= 0 else level :]
        end = found.end()
        if found[2]:  # nothing is left of the item
            return ""
        counts.extend([0] * (level - len(counts)))
        mark = found[1][-1]
        if mark in ":;":
            return "\n"
        counts[-1] += mark == "#"
        return "\n" + "  " * (level - 1) + (f"{counts[-1]}. " if mark == "#" else "- ")

    return written


def _without_tables(text: str) -> Iterator[str]:
    """The lines, with each row of a table as one line: its cells with ` | ` between them."""
    depth = 0
    row: list[list[str]] = []  # the lines of each cell
    for line in text.split("\n"):
        bare = line.lstrip(" \t:*")
        if bare.startswith("{|"):
            if not depth:
                yield ""
            depth += 1
            yield from _row(row)
        elif not depth:
            yield line
        elif bare.startswith(("|}", "|-", "|+")):
            yield from _row(row)
            if bare.startswith("|+"):
                yield _cell(bare[2:])
            elif bare.startswith("|}"):
                depth -= 1
                yield bare[2:]
        elif bare.startswith(("|", "!")):
            cells = _CELLS.split(bare[1:]) if bare[0] == "!" else bare[1:].split("||")
            row.extend([_cell(cell)] for cell in cells)
        elif bare:
            cell = row[-1] if row else [""]
            if line.lstrip()[0] in "*#" and cell[-1] and cell[-1][-1] not in ":;,":  # an item of a list in the cell
                cell[-1] += ";"
            cell.append(bare.lstrip("#").lstrip())
            row[-1:] = [cell]
    yield from _row(row)


def _row(row: list[list[str]]) -> Iterator[str]:
    cells = [" ".join(filter(None, cell)) for cell in row]
    if any(cells):
        yield " | ".join(cell or "-" for cell in cells)
    row.clear()


def _cell(cell: str) -> str:
    """Without the attributes before a single bar, or before a template that begins with them and leaves no bar."""
    before, bar, after = cell.partition("|")
    if bar and ("=" in before or not before.strip()):
        return after.strip()
    named = _ATTRIBUTES.match(cell) if "=" in cell else None
    return cell[named.end() if named else 0 :].strip()


def _with_content(text: str) -> str:
    """The text with plain headings, but without headings that nothing follows, such as that of the references."""
    found: list[str] = []
    first, *sections = _HEADING.split(text)
    below = 1  # the level of what follows: 0 for text; nothing follows the last section
    for at in range(len(sections) - 3, -1, -3):
        marks, title, body = sections[at : at + 3]
        if body.strip():
            below = 0
        if below == 0 or len(marks) < below:
            found.append(f"\n\n{title.strip(' =')}\n\n{body}")
            below = len(marks)
    return first + "".join(reversed(found))
