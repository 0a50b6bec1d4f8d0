"""Typesets known text with LaTeX, so that the reading order is known exactly: `python -m bench._pdf_typeset TEXTS OUT`.

TEXTS are JSONL files (also .zst) with a column `text`; paragraphs of plain English are taken from them. OUT gets rows
like those of bench/_pdf_gold.py: OUT/{train,test}/typeset-STYLE.jsonl. A style (class, fonts, columns, tables, notes)
is in one of the two sets only, and so is each paragraph. Needs pdflatex with the packages of texlive-latex-extra and
texlive-publishers. Formulas are written as x^2 and x_i; footnotes follow the paragraph that cites them.
"""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

DOCUMENTS = 3
"""How many documents of each style."""
BLOCKS = 70
_PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,.;:()'?!-]{79,900}[.?!]")
_SPECIAL = re.compile(r"([#$%&_{}])")


@dataclass(frozen=True)
class Style:
    """How documents are set. `columns` above 0 is the number of columns of the package multicol."""

    head: str
    test: bool
    columns: int = 0
    rules: bool = False
    """Whether tables have lines between cells, not only above and below."""
    drop_cap: bool = False


_TWO = r"\usepackage{fancyhdr}\pagestyle{fancy}\lhead{A running head}\rhead{\thepage}\cfoot{}"
STYLES = {
    "article": Style(r"\documentclass[twocolumn]{article}" + _TWO, False),
    "ieee": Style(r"\documentclass[journal]{IEEEtran}", False, drop_cap=True),
    "news": Style(
        r"\documentclass[9pt]{extarticle}\usepackage{helvet,fancyhdr}\renewcommand\familydefault{\sfdefault}"
        r"\usepackage[margin=1.6cm]{geometry}\pagestyle{fancy}\lhead{The Daily Mill}\rhead{Page \thepage}\cfoot{}",
        False, columns=3, rules=True, drop_cap=True,
    ),
    "koma": Style(r"\documentclass[11pt]{scrartcl}\usepackage{mathpazo}", False, rules=True),
    "book": Style(r"\documentclass[12pt,openany]{book}\usepackage{bookman}\pagestyle{headings}", False),
    "elsevier": Style(r"\documentclass[5p,twocolumn]{elsarticle}\usepackage{mathptmx}", True),
    "charter": Style(
        r"\documentclass[10pt,a4paper]{report}\usepackage{charter,fancyhdr}\pagestyle{fancy}"
        r"\fancyhead{}\fancyfoot[C]{-- \thepage\ --}\fancyhead[C]{\itshape Proceedings of the meeting}",
        True, columns=2, rules=True, drop_cap=True,
    ),
    "memoir": Style(r"\documentclass[12pt,openany]{memoir}\usepackage{newcent}\pagestyle{ruled}", True, drop_cap=True),
}  # fmt: skip

PREAMBLE = r"""
\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{amsmath,array,booktabs,lettrine}\renewcommand\LettrineTextFont{\relax}
\pdfsuppresswarningpagegroup=1\sloppy\setlength\emergencystretch{2em}
"""
FORMULAS = (
    (r"E = mc^{2}", "E = mc^2"),
    (r"x_{i} = \sum_{k} a_{k} y_{i}", None),
    (r"f(x) = x^{3} + 2x^{2} - 7", "f(x) = x^3 + 2x^2 − 7"),
    (r"a_{n} = a_{n-1} + b^{2}", "a_n = a_n−1 + b^2"),
    (r"P(A) = 1 - P(B)^{n}", "P(A) = 1 − P(B)^n"),
    (r"h(t) = h_{0} + v t", "h(t) = h_0 + vt"),
)
INLINE = (("2^{21}", "2^21"), ("x_{1}", "x_1"), ("n^{2}", "n^2"), ("10^{6}", "10^6"), ("y = a x^{2}", "y = ax^2"))
CODE = ("for name in names:", "    print(name, count[name])", "    total += count[name] * 2", "return total")


@dataclass
class Document:
    """LaTeX and the same text as gold."""

    latex: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, *lines: str) -> None:
        self.lines += lines
        self.kinds += [kind] * len(lines)


def paragraphs(files: list[str]) -> list[str]:
    """Different paragraphs of plain English prose, in order of the files."""
    found: dict[str, None] = {}
    for file in files:
        with pa.input_stream(file, compression="zstd" if file.endswith(".zst") else None) as stream:
            for row in stream.read().split(b"\n"):
                for part in re.split(r"\n\s*\n", json.loads(row)["text"]) if row else ():
                    line = " ".join(part.split())
                    if _PLAIN.fullmatch(line) and "--" not in line and " '" not in line:
                        found[line] = None
    return list(found)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _clause(texts: Iterator[str], words: int) -> str:
    return " ".join(next(texts).split()[:words]).strip(" ,.;:()")


def document(style: Style, texts: Iterator[str], draw: random.Random) -> Document:
    """One document with blocks of every kind."""
    out = Document()
    title, author = _clause(texts, 8), "Ada Miller and Ben Grist"
    summary = next(texts)
    abstract = (
        rf"\begin{{abstract}}{_escaped(summary)}\end{{abstract}}" if not re.search("memoir|book}", style.head) else ""
    )
    top = rf"\title{{{_escaped(title)}}}\author{{{author}}}"
    if "elsarticle" in style.head:
        out.latex += [r"\begin{frontmatter}", top, abstract, r"\end{frontmatter}"]
    else:
        out.latex += [top, r"\date{}\maketitle", abstract]
    out.add("heading", title)
    out.add("text", author)
    if abstract:
        out.add("heading", "Abstract")
        out.add("text", summary)
    if style.columns:
        out.latex.append(rf"\begin{{multicols}}{{{style.columns}}}")
    kinds = ["text"] * 12 + ["note"] * 3 + ["math", "item", "number", "table", "wide", "code", "formula", "figure"]
    for number in range(BLOCKS):
        kind = "section" if number % 12 == 0 else draw.choice(kinds)
        if number == 1 and style.drop_cap:
            kind = "drop"
        _ADD[kind](out, style, texts, draw)
    if style.columns:
        out.latex.append(r"\end{multicols}")
    return out


def _section(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    title = _clause(texts, draw.randint(2, 6))
    out.latex.append(rf"\section*{{{_escaped(title)}}}")
    out.add("heading", title.upper() if "IEEEtran" in style.head else title)


def _text(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    text = next(texts)
    out.latex.append(_escaped(text) + "\n")
    out.add("text", text)


def _drop(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    text = next(texts)
    first, _, rest = text.partition(" ")
    out.latex.append(rf"\lettrine{{{first[0]}}}{{{first[1:]}}} {_escaped(rest)}" + "\n")
    out.add("text", text)


def _note(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    text, note = next(texts), next(texts)[:200].rpartition(" ")[0]
    head, _, tail = text.partition(" ")
    out.latex.append(rf"{_escaped(head)} {_escaped(tail)}\footnote{{{_escaped(note)}}}" + "\n")
    number = sum(one.startswith("[") for one in out.notes) + 1
    note = f"[{number}] {note}"
    out.add("text", f"{text}[{number}]")
    out.add("note", note)
    out.notes.append(note)


def _math(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    words = next(texts).split()
    at = draw.randint(1, len(words) - 1)
    formula, gold = draw.choice(INLINE)
    out.latex.append(f"{_escaped(' '.join(words[:at]))} ${formula}$ {_escaped(' '.join(words[at:]))}\n")
    out.add("text", " ".join([*words[:at], gold, *words[at:]]))


def _list(out: Document, texts: Iterator[str], draw: random.Random, name: str) -> None:
    items = [next(texts) for _ in range(draw.randint(2, 4))]
    body = "".join(rf"\item {_escaped(item)}" + "\n" for item in items)
    out.latex.append(rf"\begin{{{name}}}" + "\n" + body + rf"\end{{{name}}}")
    out.add("item", *(f"{at}. {item}" if name == "enumerate" else item for at, item in enumerate(items, 1)))


def _table(out: Document, style: Style, texts: Iterator[str], draw: random.Random, wide: bool = False) -> None:
    rows = [["Name", "Size", "Note" if wide else "Weight"]]
    for _ in range(draw.randint(3, 7)):
        note = _clause(texts, 12) if wide else str(draw.randint(1, 99_999))
        rows.append([_clause(texts, 1), str(draw.randint(1, 999)), note])
    sep = "|" if style.rules else ""
    columns = sep + sep.join(["l", "r", r"p{0.45\linewidth}" if wide else "r"]) + sep
    ends = r"\\\hline " if style.rules else r"\\ "
    body = ends.join(" & ".join(map(_escaped, row)) for row in rows) + ends
    head = r"\hline " if style.rules else r"\toprule "
    foot = "" if style.rules else r"\bottomrule "
    out.latex.append(rf"\begin{{center}}\begin{{tabular}}{{{columns}}}{head}{body}{foot}\end{{tabular}}\end{{center}}")
    out.add("table", *(" | ".join(row) for row in rows))
    out.tables.append(rows)


def _wide(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    _table(out, style, texts, draw, wide=True)


def _code(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    lines = [line.replace("name", draw.choice(["name", "key", "word", "part"])) for line in CODE]
    out.latex.append("\\begin{verbatim}\n" + "\n".join(lines) + "\n\\end{verbatim}")
    out.add("code", *lines)


def _formula(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    formula, gold = draw.choice([one for one in FORMULAS if one[1]])
    out.latex.append(rf"\[{formula}\]")
    out.add("formula", gold or "")


def _figure(out: Document, style: Style, texts: Iterator[str], draw: random.Random) -> None:
    if style.columns:  # multicol has no floats
        return _text(out, style, texts, draw)
    caption = _clause(texts, 14)
    box = r"\rule{0.7\linewidth}{3cm}"
    out.latex.append(rf"\begin{{figure}}[tb]\centering{box}\caption{{{_escaped(caption)}}}\end{{figure}}")
    number = sum(not one.startswith("[") for one in out.notes) + 1
    caption = f"{'Fig.' if 'IEEE' in style.head else 'Figure'} {number}: {caption}"
    out.add("caption", caption)
    out.notes.append(caption)  # a float may be on another page: its place does not count
    return None


_ADD = {
    "section": _section, "text": _text, "drop": _drop, "note": _note, "math": _math, "table": _table, "wide": _wide,
    "item": lambda out, style, texts, draw: _list(out, texts, draw, "itemize"),
    "number": lambda out, style, texts, draw: _list(out, texts, draw, "enumerate"),
    "code": _code, "formula": _formula, "figure": _figure,
}  # fmt: skip


def write(files: list[str], out: Path) -> None:
    """Typesets all documents and writes their gold."""
    known = paragraphs(files)
    draw = random.Random(1)
    draw.shuffle(known)
    half = len(known) // 2
    pools = {False: iter(known[:half]), True: iter(known[half:])}
    for name, style in STYLES.items():
        rows = []
        for number in range(DOCUMENTS):
            made = document(style, pools[style.test], draw)
            path = out / "pdf" / f"typeset-{name}-{number}.tex"
            path.parent.mkdir(parents=True, exist_ok=True)
            package = r"\usepackage{multicol}" if style.columns else ""
            path.write_text(
                style.head + PREAMBLE + package + "\\begin{document}\n" + "\n".join(made.latex) + "\\end{document}\n"
            )
            command = ["pdflatex", "-interaction=nonstopmode", path.name]
            for _ in range(2):
                done = subprocess.run(command, cwd=path.parent, capture_output=True)
            pages = re.search(rb"Output written on .*?\((\d+) page", done.stdout, re.S)
            if pages is None:
                raise SystemExit(f"pdflatex failed: {done.stdout[-2000:].decode('utf-8', 'replace')}")
            print(f"{path.stem}: {pages[1].decode()} pages, {done.stdout.count(b'! ')} errors")
            rows.append({
                "pdf": str(path.with_suffix(".pdf").resolve()), "pages": [0, int(pages[1]) - 1],
                "text": "\n".join(made.lines), "kinds": made.kinds, "tables": made.tables, "footnotes": made.notes,
                "language": "en", "title": made.lines[0], "source": "typeset", "license": "as the texts",
            })  # fmt: skip
        folder = out / ("test" if style.test else "train")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"typeset-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(sys.argv[1:-1], Path(sys.argv[-1]))
