"""Converts each MathML element to LaTeX, given its converted children.

Elements are converted when they are closed, so their children are LaTeX already (`TexPart`). This module sees no
markup.
"""

import re
from collections.abc import Callable

from gristmill.kernels.text.unicode_data import known
from gristmill.stages.reading.formulas import mathml_tokens as tokens
from gristmill.stages.reading.formulas import tex_symbols as tex
from gristmill.stages.reading.formulas.mathml_tokens import Element, TexPart
from gristmill.stages.reading.formulas.tex_symbols import is_single, join


def build(element: Element) -> TexPart:
    """Converts an element of any name; an unknown one is a row."""
    return _BUILDERS.get(element.name, _row)(element)


def _arguments(element: Element, count: int) -> list[TexPart]:
    """Exactly `count` parts: missing ones are empty, and surplus ones are joined to the last."""
    parts = [*element.parts, *(TexPart("") for _ in range(count - len(element.parts)))]
    return [*parts[: count - 1], _line(parts[count - 1 :])]


def _row(element: Element) -> TexPart:
    return _line(element.parts)


def _line(parts: list[TexPart]) -> TexPart:
    """Joins parts in a line. Matching fences enclose what is between them; unmatched fences are characters."""
    if len(parts) == 1:
        return parts[0]
    levels: list[tuple[TexPart, list[TexPart]]] = [(TexPart(""), [])]
    for place, part in enumerate(parts):
        opening, inside = levels[-1]
        kind = part.kind
        if kind == "bar":
            closes = opening.text == part.text and inside
            opens = place == 0 or any(after.kind == "table" for after in parts[place + 1 : place + 2])
            kind = "close" if closes else "open" if opens else ""
        if kind == "open":
            levels.append((part, []))
        elif kind == "close" and len(levels) > 1:
            levels.pop()
            levels[-1][1].append(_fenced(opening, inside, part))
        elif kind == "close" and inside and inside[-1].kind == "table":
            inside.append(_fenced(TexPart(""), [inside.pop()], part))
        else:
            _append(inside, part)
    inside = []
    for opening, parts in levels:
        if parts and parts[0].kind == "table" and opening.text:
            inside += [_fenced(opening, parts[:1], TexPart("")), *parts[1:]]
        else:
            inside += [opening, *parts] if opening.text else parts
    visible = [part for part in inside if part.tex]
    if len(visible) == 1:
        return visible[0]
    return TexPart(join(part.tex for part in inside), tall=any(part.tall for part in inside))


def _append(parts: list[TexPart], part: TexPart) -> None:
    before = parts[-1] if parts else TexPart("")
    if part.text == "\u2061" and before.kind == "named" and before.tex.startswith("\\mathrm"):
        parts[-1] = TexPart(f"\\operatorname{{{before.text}}}", "named", before.text)
    if part.kind == before.kind == "prime":
        parts[-1] = TexPart(before.tex + part.tex, "prime")
    elif part.kind == before.kind == "upright":  # KaTeX writes a name letter by letter
        name = before.text + part.text
        parts[-1] = TexPart("\\bmod" if name == "mod" else f"\\mathrm{{{name}}}", "upright", name)
    else:
        parts.append(part)


_MATRICES = {"()": "pmatrix", "[]": "bmatrix", "{}": "Bmatrix", "||": "vmatrix", "‖‖": "Vmatrix"}
MAX_MATRIX_COLUMNS = 10
"""The most columns of LaTeX's matrices; an array declares its own number."""


def _fenced(opening: TexPart, inside: list[TexPart], closing: TexPart) -> TexPart:
    content = [part for part in inside if part.tex]
    only = content[0] if len(content) == 1 else TexPart("")
    fences = opening.text + closing.text
    scripts = closing.tex[len(tex.operator(closing.text)) :]
    kind = "" if scripts else "fenced"
    if only.kind == "atop" and fences == "()":
        return TexPart(f"\\binom{only.text}{scripts}", kind, tall=True)
    if only.kind == "table" and only.columns <= MAX_MATRIX_COLUMNS:
        name = "cases" if opening.text == fences == "{" and only.columns <= 2 else _MATRICES.get(fences)
        if name:
            return TexPart(_environment(name, only.text) + scripts, kind, tall=True)
    tall = any(part.tall for part in content)
    left, right = opening.tex, closing.tex
    if tall and not (opening.fixed or closing.fixed):
        left, right = f"\\left{left or '.'}", f"\\right{right or '.'}"
    return TexPart(join([left, *(part.tex for part in inside), right]), kind, tall=tall)


def _group(part: TexPart) -> str:
    return part.tex if len(part.tex) == 1 and (known(part.tex).isalnum() or part.tex in "*+-") else f"{{{part.tex}}}"


def _scripts(base: TexPart, sub: TexPart | None = None, sup: TexPart | None = None) -> TexPart:
    below = f"_{_group(sub)}" if sub and sub.tex else ""
    above = f"^{_group(sup)}" if sup and sup.tex else ""
    if sup and sup.kind == "prime":
        above = sup.tex.removeprefix("{}")
    elif sup and sup.text == "°":
        above = "^{\\circ}"
    if not (below or above):
        return base
    kind = "subsup" if below and above else "sub" if below else "sup"
    start = base.tex
    if base.kind == "close" and start == tex.operator(base.text):
        kind = "close"
    elif (base.kind, kind) in (("sub", "sup"), ("sup", "sub")):
        kind = "subsup"
    elif base.kind == "prime" and not above:
        kind = "subsup"  # f'_i, as pandoc writes it; nothing more goes there
    elif base.kind not in ("big", "fenced") and not is_single(start):
        start = f"{{{start}}}"
    return TexPart(start + below + above, kind, base.text if kind == "close" else "", base.tall, base.fixed)


def _under_over(base: TexPart, under: TexPart | None = None, over: TexPart | None = None) -> TexPart:
    """Limits of a sum, accents, labels on an arrow, or simply one above the other."""
    if base.kind == "big":
        return _scripts(base, under, over)
    if base.kind == "named" and under and under.tex:
        name = base.text.replace(" ", "\\,")
        return _scripts(TexPart(f"\\operatorname*{{{name}}}", "big"), under, over)
    if base.text in tex.ARROWS and base.tex and not base.kind:
        below = f"[{{{under.tex}}}]" if under and under.tex else ""
        label = over.tex.removeprefix("\\;").removesuffix("\\;") if over else ""
        return TexPart(f"{tex.ARROWS[base.text]}{below}{{{label}}}")
    if over and over.kind == "space":  # Temml makes an arrow as wide as its label this way
        over = None
    answer = base
    if over and over.text in tex.OVER:
        is_bar = over.text in tex.LINES and over.fixed and is_single(base.tex)
        command = "bar" if is_bar else tex.OVER[over.text][not is_single(base.tex)]
        answer = TexPart(f"\\{command}{{{base.tex}}}", "big" if "brace" in command else "", "", base.tall)
    elif over and over.tex:
        answer = TexPart(f"\\overset{{{over.tex}}}{{{base.tex}}}", "", "", True)
    if under and under.text in tex.UNDER:
        command = tex.UNDER[under.text]
        return TexPart(f"\\{command}{{{answer.tex}}}", "big" if "brace" in command else "", "", base.tall)
    if under and under.tex:
        return (
            _scripts(answer, under)
            if answer.kind == "big"
            else TexPart(f"\\underset{{{under.tex}}}{{{answer.tex}}}", "", "", True)
        )
    return answer


def _multiscripts(element: Element) -> TexPart:
    base, *scripts = element.parts or [TexPart("")]
    middle = next((place for place, part in enumerate(scripts) if part.kind == "prescripts"), len(scripts))
    pieces = [_scripts(base, *scripts[: min(2, middle)]).tex]
    pieces += [_scripts(TexPart(""), *scripts[at : min(at + 2, middle)]).tex for at in range(2, middle, 2)]
    before = scripts[middle + 1 :]
    starts = [_scripts(TexPart(""), *before[at : at + 2]).tex for at in range(0, len(before), 2)]
    return TexPart(join([*starts, *pieces]), tall=base.tall)


def _fraction(element: Element) -> TexPart:
    top, bottom = _arguments(element, 2)
    both = f"{{{top.tex}}}{{{bottom.tex}}}"
    if re.match(r"0+(\.0*)?([a-z%]|\Z)", element.attributes.get("linethickness", "").strip()):
        return TexPart(f"{{{top.tex}\\atop {bottom.tex}}}", "atop", both, True)
    if element.attributes.get("bevelled") == "true":
        return TexPart("/".join(part.tex if is_single(part.tex) else f"{{{part.tex}}}" for part in (top, bottom)))
    return TexPart("\\frac" + both, "", "", True)


def _root(element: Element) -> TexPart:
    base, degree = _arguments(element, 2)
    index = f"{{{degree.tex}}}" if "]" in degree.tex else degree.tex
    return TexPart(f"\\sqrt[{index}]{{{base.tex}}}" if index else f"\\sqrt{{{base.tex}}}", "", "", base.tall)


def _wrapped(command: str, part: TexPart) -> TexPart:
    return TexPart(f"{command}{{{part.tex}}}", "", "", part.tall)


_ENCLOSURES = (
    *(("radical", "\\sqrt"), ("longdiv", "\\overline"), ("actuarial", "\\overline"), ("box", "\\boxed")),
    *(("circle", "\\boxed"), ("strike", "\\cancel"), ("top", "\\overline"), ("bottom", "\\underline")),
)


def _enclosed(element: Element) -> TexPart:
    notation = element.attributes.get("notation", "longdiv").split()
    commands = [command for name, command in _ENCLOSURES if any(word.endswith(name) for word in notation)]
    return _wrapped(commands[0], _row(element)) if commands else _row(element)


def _fences(element: Element) -> TexPart:
    attributes = element.attributes
    marks = attributes.get("open", "(").strip(), attributes.get("close", ")").strip()
    left, right = ({"<": "⟨", ">": "⟩"}.get(mark, mark) for mark in marks)
    separators = "".join(attributes.get("separators", ",").split())
    inside = element.parts[:1]
    for place, part in enumerate(element.parts[1:]):
        inside += [TexPart(tex.symbols(separators[min(place, len(separators) - 1)])), part] if separators else [part]
    fixed = any(len(mark) > 1 for mark in (left, right))  # words are not fences
    return _fenced(
        TexPart(tex.operator(left), "open", left, fixed=fixed), inside, TexPart(tex.operator(right), "close", right)
    )


def _environment(name: str, body: str, columns: str = "") -> str:
    return join([f"\\begin{{{name}}}{columns}", body, f"\\end{{{name}}}"])


def _table_row(element: Element) -> TexPart:
    cells = element.parts[element.name == "mlabeledtr" :]
    return TexPart(join(part.tex for part in cells), "row", "&".join(part.tex for part in cells), columns=len(cells))


def _table(element: Element) -> TexPart:
    rows = [part.text if part.kind == "row" else part.tex for part in element.parts]
    # LaTeX would take a bracket or a star after \\ as its argument.
    rows[1:] = ["{}" + row if row.startswith(("[", "*")) else row for row in rows[1:]]
    body = "\\\\".join(rows)
    columns = max((part.columns if part.kind == "row" else 1 for part in element.parts), default=0)
    aligned = element.attributes.get("columnalign", "").split()[:2] == ["right", "left"]
    if columns > MAX_MATRIX_COLUMNS:
        answer = _environment("array", body, f"{{{'c' * columns}}}")
    elif columns == 1 and element.attributes.get("displaystyle") == "true":
        answer = _environment("gathered", body)
    else:
        answer = _environment("aligned" if aligned else "matrix", body)
    return TexPart(answer, "table", body, True, columns=columns)


def _first(element: Element) -> TexPart:
    """The visible child of `semantics`; the selected child of an action."""
    chosen = element.attributes.get("selection", "1")
    place = int(chosen) - 1 if chosen.isascii() and chosen.isdecimal() and len(chosen) < 4 else 0
    return element.parts[place] if 0 <= place < len(element.parts) else _line(element.parts[:1])


def _spoken(element: Element) -> TexPart:
    """Content MathML: its words and numbers, separated by spaces."""
    return TexPart(" ".join(part.tex for part in element.parts if part.tex))


def _sup(element: Element) -> TexPart:
    base, sup = _arguments(element, 2)
    return _scripts(base, None, sup)


def _over(element: Element) -> TexPart:
    base, over = _arguments(element, 2)
    return _under_over(base, None, over)


_BUILDERS: dict[str, Callable[[Element], TexPart]] = {
    "mi": tokens.identifier,
    "mn": tokens.number,
    "mo": tokens.operator,
    "mtext": tokens.text,
    "ms": tokens.string,
    "mspace": tokens.space,
    **dict.fromkeys(("math", "mrow", "mstyle", "mpadded", "merror", "mtd"), _row),
    "msub": lambda element: _scripts(*_arguments(element, 2)),
    "msup": _sup,
    "msubsup": lambda element: _scripts(*_arguments(element, 3)),
    "munder": lambda element: _under_over(*_arguments(element, 2)),
    "mover": _over,
    "munderover": lambda element: _under_over(*_arguments(element, 3)),
    "mmultiscripts": _multiscripts,
    "mfrac": _fraction,
    "msqrt": lambda element: _wrapped("\\sqrt", _row(element)),
    "mroot": _root,
    "menclose": _enclosed,
    "mfenced": _fences,
    "mtable": _table,
    "mtr": _table_row,
    "mlabeledtr": _table_row,
    "semantics": _first,
    "maction": _first,
    "apply": _spoken,
    "mphantom": lambda _: TexPart(""),
    "none": lambda _: TexPart(""),
    "mprescripts": lambda _: TexPart("", "prescripts"),
}
KNOWN = frozenset(_BUILDERS)
TOKENS = frozenset(("mi", "mn", "mo", "ms", "mtext"))
VOID = frozenset(("mspace", "mprescripts", "none", "malignmark", "maligngroup"))
"""Elements without content, whose end tags pages often omit."""
HIDDEN = frozenset(("annotation", "annotation-xml"))
