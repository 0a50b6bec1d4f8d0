"""Formulas there and back: `python -m bench._formulas DATA NODE TOOL COUNT [READER ...]`.

Real formulas (latex-math of DATA/text and DATA/text_large) are rendered by TOOL (katex, temml, mathjax3, mathjax4,
latexml, pandoc), put into paragraphs of the main text of real pages (DATA/warc), extracted, and rendered again by the
same tool. A formula counts if its MathML is the same, once with the TeX that the tool writes beside its MathML
(annotated), once without it (bare). pandoc also has forms without MathML: mathjax, katex, webtex, and plain HTML.

NODE is a folder in which these packages are installed: `npm install katex temml mathjax-full@3 mathjax@4
mathml-to-latex`; latexml, pandoc and lynx come from Debian. READER is ours (`extract`), or a peer: lynx, trafilatura,
resiliparse, or mathml-to-latex, which gets the MathML alone. A peer may write a formula with or without delimiters.

TOOL may be docx or odt: pandoc writes a file with COUNT formulas, which is read with `format: office` and by pandoc.

The same MathML means: the same elements, characters and alphabets. Spaces, sizes, classes, empty elements and rows
around other elements do not count. A limit below a sum is the same as an index, and a script of a group in fences is
the same as one of its last fence. Formulas that the tool cannot render are left out, as are diagrams (`xymatrix`) and
references. User macros of the two books are replaced by what they stand for, as far as MACROS has them.
"""

import json
import random
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import trafilatura
from resiliparse.extract.html2text import extract_plain_text

from bench.inputs import scratch, texts, web_pages
from gristmill.schema import as_str
from gristmill.stages.contract import Piece
from gristmill.stages.extract import extract
from gristmill.stages.shared.formulas import ENVIRONMENTS
from gristmill_formats import office

SCRIPT = Path(__file__).with_name("_formulas.js").resolve()
FORMULAS_PER_PAGE = 20
SHOWN = 5
LATEXML_BATCH = 100
"""Formulas of a document; an error in one may damage those after it."""
MIN_PARAGRAPHS, MAX_PAGE_CHARS = 12, 200_000
_NAMES = "Mor Ob Spec Hom Ext Ker Im Coker Tor Aut Gal id GL Id Mat Tr Pic"
MACROS = {
    **{name: f"\\operatorname{{{name}}}" for name in _NAMES.split()},
    **{2 * letter: f"\\mathbb {letter}" for letter in "NZQRCPFAV"},
    "Sh": r"\mathit{Sh}",
    "SheafHom": r"\mathcal{H}\!\mathit{om}",
    "colim": r"\operatorname*{colim}",
    "QCoh": r"\mathit{QCoh}",
    "etale": r"\text{étale}",
    "eps": r"\varepsilon",
    "ol": r"\overline",
    "defeq": r"\coloneqq",
    "taking": r"\xrightarrow",
    "half": r"\frac{1}{2}",
    "dang": r"\measuredangle",
    "injto": r"\hookrightarrow",
    "surjto": r"\twoheadrightarrow",
    "img": r"\operatorname{im}",
    "inv": "^{-1}",
}
_FOUND = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\begin\{(align|gather|equation)\*?\}(.+?)\\end\{\3\*?\}|(?<!\\)\$([^$]+?)(?<!\\)\$",
    re.DOTALL,
)


def formulas(data: Path) -> list[dict[str, Any]]:
    """All different formulas of the data, shuffled."""
    found: dict[tuple[str, bool], None] = {}
    for text in (text for folder in ("text", "text_large") for text in _documents(data / folder)):
        for match in _FOUND.finditer(re.sub(r"(?<!\\)%[^\n]*\n", "\n", text)):
            tex = match[1] or match[2] or match[5] or match[4]
            if name := match[3] and ENVIRONMENTS[match[3]]:
                tex = f"\\begin{{{name}}}{tex}\\end{{{name}}}"
            if "\n\n" in tex or "\\xymatrix" in tex or "\\ref" in tex:
                continue
            tex = re.sub(r"\\label\{[^}]*\}", "", tex)
            tex = re.sub(r"\\([A-Za-z]+)(?=(.?))", _expanded, tex)
            tex = " ".join(tex.split())
            if 1 < len(tex) < 1500:
                found.setdefault((tex, match[5] is None))
    shuffled = [{"tex": tex, "display": display} for tex, display in found]
    random.Random(1).shuffle(shuffled)
    return shuffled


def _documents(folder: Path) -> Iterator[str]:
    with scratch() as alone:
        (alone / "latex-math.jsonl.zst").symlink_to((folder / "latex-math.jsonl.zst").resolve())
        yield from texts(alone, 1 << 40)


def _expanded(match: re.Match[str]) -> str:
    meaning = MACROS.get(match[1])
    if meaning is None:
        return match[0]
    return meaning + (" " if match[2].isalpha() and meaning[-1].isalpha() else "")


def render(tool: str, node: Path, tex: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The forms that a tool gives each formula: its `mathml`, and the markup of a page by kind; or `error`."""
    if not tex:
        return []
    if tool == "latexml":
        return [one for at in range(0, len(tex), LATEXML_BATCH) for one in _latexml(tex[at : at + LATEXML_BATCH])]
    return _pandoc(tex) if tool == "pandoc" else _node(tool, node, tex)


def _node(tool: str, node: Path, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "\n".join(map(json.dumps, given))
    done = subprocess.run(
        ["node", str(SCRIPT), tool], input=lines, stdout=subprocess.PIPE, cwd=node, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def _latexml(tex: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = [r"\documentclass{article}\usepackage{amsmath,amssymb}\begin{document}"]
    for number, one in enumerate(tex):
        formula = f"\\[{one['tex']}\\]" if one["display"] else f"${one['tex']}$"
        lines.append(f"\\noindent QQ{number}Q {formula} ZZ{number}Z\n")
    command = ["latexmlc", "--quiet", "--quiet", "--whatsin=document", "--format=html5", "--pmml", "--mathtex", "-"]
    given = "\n".join([*lines, r"\end{document}"])
    with scratch() as folder:  # it writes style sheets there, and fails after 100 errors
        done = subprocess.run(command, input=given, capture_output=True, cwd=folder, text=True)
    shown = {int(one[1]): one[2] for one in re.finditer(r"QQ(\d+)Q(.*?)ZZ\1Z", done.stdout, re.DOTALL)}
    out: list[dict[str, Any]] = []
    for number in range(len(tex)):
        annotated = shown.get(number, "ltx_ERROR")
        if "ltx_ERROR" in annotated or "<math" not in annotated or "QQ" in annotated:
            out.append({"error": annotated})
            continue
        bare = re.sub(r' alttext="[^"]*"|<annotation .*?</annotation>', "", annotated, flags=re.DOTALL)
        mathml = "".join(re.findall(r"<math.*?</math>", bare, re.DOTALL))
        out.append({"mathml": f"<div>{mathml}</div>", "annotated": annotated, "bare": bare})
    return out


def _pandoc(tex: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = {True: {"t": "DisplayMath"}, False: {"t": "InlineMath"}}
    blocks = [{"t": "Para", "c": [{"t": "Math", "c": [kinds[one["display"]], one["tex"]]}]} for one in tex]
    given = json.dumps({"pandoc-api-version": [1, 22], "meta": {}, "blocks": blocks})
    forms = {}
    for form in ("mathml", "mathjax", "katex", "webtex", "plain"):
        command = ["pandoc", "-f", "json", "-t", "html", "--wrap=none", *([f"--{form}"] if form != "plain" else [])]
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        forms[form] = [one[3:] for one in done.stdout.removesuffix("</p>\n").split("</p>\n")]
    out: list[dict[str, Any]] = []
    for annotated, mathjax, katex, webtex, plain in zip(*forms.values(), strict=True):
        bare = re.sub(r"<annotation .*?</annotation>", "", annotated, flags=re.DOTALL)
        shown = {"mathml": bare, "annotated": annotated, "bare": bare, "mathjax": mathjax, "katex": katex}
        found = "<math" in annotated and "<mtext mathcolor" not in bare
        out.append({**shown, "webtex": webtex, "plain": plain} if found else {"error": annotated})
    return out


def extracted(html: str, reader: str = "extract") -> str:
    if reader == "lynx":
        command = [
            "lynx",
            "-stdin",
            "-dump",
            "-force_html",
            "-nolist",
            "-width=990",
            "-display_charset=utf-8",
            "-assume_charset=utf-8",
        ]
        return subprocess.run(command, input=html, stdout=subprocess.PIPE, text=True, check=True).stdout
    if reader == "trafilatura":
        return trafilatura.extract(html) or ""
    if reader == "resiliparse":
        return extract_plain_text(html, main_content=True)
    row = [pa.array([value], pa.string()) for value in (html, None, None, None)]
    batch = pa.RecordBatch.from_arrays(row, names=list(extract.READS))
    return extract.apply(batch, extract.Config()).column("text")[0].as_py() or ""


def pages(data: Path) -> Iterator[tuple[str, list[int]]]:
    """Pages without formulas, and where paragraphs of their main text end."""
    with scratch() as folder:
        found = web_pages(data / "warc", folder)
    for page in found:
        html = as_str(page.html) if page.html is not None else ""
        ends = [match.start() for match in re.finditer("</p>", html)]
        if len(html) > MAX_PAGE_CHARS or len(ends) < MIN_PARAGRAPHS or "<math" in html:
            continue
        marked = _filled(html, [(end, f" qq{end}q ") for end in ends])
        kept = [int(number) for number in re.findall(r"qq(\d+)q", extracted(marked))]
        if len(kept) >= MIN_PARAGRAPHS:
            yield html, sorted(kept)


def _filled(html: str, pieces: Sequence[tuple[int, str]]) -> str:
    out, at = [], 0
    for end, piece in pieces:
        out += [html[at:end], piece]
        at = end
    return "".join([*out, html[at:]])


def there_and_back(
    rendered: Sequence[str], places: Sequence[tuple[str, list[int]]], reader: str = "extract"
) -> dict[int, str]:
    """The TeX of each formula that is found in the text of its page, by number."""
    found = {}
    for start in range(0, len(rendered), FORMULAS_PER_PAGE):
        html, ends = places[start // FORMULAS_PER_PAGE % len(places)]
        pieces = []
        for place, end in enumerate(ends):
            numbers = range(start, min(start + FORMULAS_PER_PAGE, len(rendered)))[place :: len(ends)]
            pieces.append((end, "".join(f" qq{one}q {rendered[one]} zz{one}z," for one in numbers)))
        text = extracted(_filled(html, pieces), reader)
        # A formula on its own line is a paragraph, so that the sign after it may be lost.
        for match in re.finditer(r"qq(\d+)q\s*(.*?)\s*(?:zz\1z|\n\n|\Z)", text, re.DOTALL):
            formula = " ".join(match[2].split())
            tex = re.fullmatch(r"(\$\$?)(.*)\1|\\[(\[](.*)\\[)\]]", formula)
            if tex or reader != "extract":
                found[int(match[1])] = (tex[2] or tex[3] or "") if tex else formula
    return found


_GROUPS = ("math", "merror", "mpadded", "mrow", "mstyle", "semantics")
_UNSEEN = ("annotation", "annotation-xml", "mphantom", "mspace", "none")
_STYLES = {"DOUBLE-STRUCK": "D", "SCRIPT": "S", "FRAKTUR": "F", "BLACK-LETTER": "F", "SANS-SERIF": "A", "BOLD": "B"}
_VARIANTS = {"double-struck": "D", "script": "S", "fraktur": "F", "sans-serif": "A", "bold": "B", "monospace": "M"}
_SAME = str.maketrans({"−": "-", "∣": "|", "‖": "∥", "′": "'", "’": "'", "≔": ":="})
_SCRIPTS = {name: kind for kind in ("sub", "sup", "subsup") for name in (f"m{kind}",)}
_SCRIPTS |= {"munder": "sub", "mover": "sup", "munderover": "subsup"}


def plain_form(mathml: str) -> str:
    """The elements, characters and alphabets of a formula, in order."""
    mathml = re.sub(r"<annotation.*?</annotation>", "", mathml.replace("&nbsp;", "\u00a0"), flags=re.DOTALL)
    return "".join(_children(ET.fromstring(mathml.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', ""))))


def _children(element: ET.Element) -> list[str]:
    return [piece for child in element for piece in _plain(child)]


def _plain(element: ET.Element) -> list[str]:
    name = element.tag
    if name in _GROUPS:
        return _children(element)
    if name in _UNSEEN:
        return []
    if name in ("mi", "mn", "mo", "ms", "mtext"):
        chars = "".join(_letter(char) for char in "".join(element.itertext()))
        chars = re.sub(r"[\s\u200b\ufe00-\ufe0f]+", "", unicodedata.normalize("NFC", chars).translate(_SAME))
        return [f"{_VARIANTS.get(element.get('mathvariant', ''), '')}{chars} ".replace(":=", ": =")] if chars else []
    if name in ("mtable", "mtr", "mtd", "msqrt"):
        return [f"<{name}>", *_children(element), f"</{name}>"]
    name = _SCRIPTS.get(name, name)
    parts = [_plain(child) for child in element]
    before: list[str] = []
    if name in ("sub", "sup", "subsup") and len(parts[0]) > 1 and parts[0][-1].strip() in [*")]}⟩⌋⌉|∥"]:
        before, parts[0] = parts[0][:-1], parts[0][-1:]
    line = element.get("linethickness", "")
    return [*before, f"<{name} {line}>{'|'.join(''.join(part) for part in parts)}</{name}>"]


def _letter(char: str) -> str:
    if char in "\u2061\u2062\u2063\u2064":
        return ""
    name = unicodedata.name(char, "")
    is_letter = name.startswith(("MATHEMATICAL ", "DOUBLE-STRUCK CAPITAL", "SCRIPT CAPITAL", "BLACK-LETTER"))
    style = "".join(sign for word, sign in _STYLES.items() if word in name) if is_letter else ""
    return style + unicodedata.normalize("NFKC", char)


def _form(rendered: dict[str, Any]) -> str:
    return plain_form(rendered["mathml"]) if "error" not in rendered else str(rendered["error"])


def run(data: Path, node: Path, tool: str, count: int, readers: Sequence[str]) -> None:
    tex = formulas(data)[: count * 5 // 4]
    both = [(one, shown) for one, shown in zip(tex, render(tool, node, tex), strict=True) if "error" not in shown]
    both = both[:count]
    places = [place for place, _ in zip(pages(data), range(-(-len(both) // FORMULAS_PER_PAGE)), strict=False)]
    kinds = [kind for kind, form in both[0][1].items() if kind != "mathml" and form]
    for reader, kind in ((reader, kind) for reader in readers for kind in kinds):
        if reader == "mathml-to-latex":
            answers = _node(reader, node, [{"tex": shown["mathml"], "display": False} for _, shown in both])
            found = {number: answer["found"] for number, answer in enumerate(answers) if "found" in answer}
        else:
            found = there_and_back([shown[kind] for _, shown in both], places, reader)
        again = render(tool, node, [{**both[one][0], "tex": found[one]} for one in found])
        same = [one for one, shown in zip(found, again, strict=True) if _form(both[one][1]) == _form(shown)]
        found_same = f"{len(found)} found, {len(same)} same: {len(same) / len(both):.4f}"
        print(f"{tool}, {kind}, {reader}: {len(both)} formulas in {len(places)} pages, {found_same}", flush=True)
        for one in sorted(set(found) - set(same))[:SHOWN]:
            print(f"    {both[one][0]['tex'][:100]}\n    {found[one][:100]}")


def run_office(data: Path, suffix: str, count: int) -> None:
    tex = formulas(data)[: count * 5 // 4]
    both = [(one, shown) for one, shown in zip(tex, _pandoc(tex), strict=True) if "error" not in shown][:count]
    blocks = [
        {"t": "Para", "c": [{"t": "Str", "c": f"QQ{number}Q"}, {"t": "Math", "c": [{"t": "InlineMath"}, one["tex"]]}]}
        for number, (one, _) in enumerate(both)
    ]
    given = json.dumps({"pandoc-api-version": [1, 22], "meta": {}, "blocks": blocks})
    with scratch() as folder:
        path = folder / f"all.{suffix}"
        subprocess.run(["pandoc", "-f", "json", "-o", str(path)], input=given, text=True, check=True)
        [record] = office.read(Piece(str(path), path.name), office.Config())
        command = ["pandoc", str(path), "-t", "markdown", "--wrap=none"]
        peer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    for reader, text in (("office", record.text or ""), ("pandoc", peer)):
        found = {int(one[1]): one[2] for one in re.finditer(r"QQ(\d+)Q\s*\$+(.*?)\$+\s*(?=QQ|\Z)", text, re.DOTALL)}
        again = _pandoc([{**both[one][0], "tex": found[one]} for one in found])
        same = sum(_form(both[one][1]) == _form(shown) for one, shown in zip(found, again, strict=True))
        print(f"{suffix}, {reader}: {len(both)} formulas, {len(found)} found, {same} same: {same / len(both):.4f}")


if __name__ == "__main__" and sys.argv[3] in ("docx", "odt"):
    run_office(Path(sys.argv[1]), sys.argv[3], int(sys.argv[4]))
elif __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:] or ["extract"])
