"""Reads papers in LaTeX, one document per paper: a file, a tar file (as arXiv has them), or a folder of files.

The text is title and body; comments, preamble and references are left out. `\\input` is followed inside the tar file or
the folder, macros of the paper are expanded, formulas stay TeX. Author-year citations are those of the `.bbl` file;
numbers of citations are left out. A file without `\\documentclass` is part of a paper, not a paper.
"""

import io
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest import text
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.text import TreeConfig
from gristmill.stages.ingest.whole_file import one_record
from gristmill.stages.reading.decompress import ReadFault
from gristmill.stages.reading.stream import bounded, plain_chunks
from gristmill.stages.reading.tex.expand import Macros, closings
from gristmill.stages.reading.tex.latex_text import LatexText

MAX_INPUT_DEPTH = 10
MAX_REPEATS = 4
"""How often, on average, a file of a paper may be included."""
MAX_FILES = 1000
"""Files of one folder or tar file that belong to a paper. In a larger folder, each file is a paper."""
_SOURCES = (".tex", ".bbl", ".ltx")
_INPUT = re.compile(r"\\(?:input|include|subfile)\s*\{([^{}]{1,300})\}|\\input\s+([^\s{}\\]{1,300})")
_COMMENT = re.compile(r"\\.|%[^\n]*(?:\n[ \t]*)?", re.DOTALL)
_VERBATIM = re.compile(
    r"\\begin\{(verbatim\*?|lstlisting|minted|Verbatim|alltt)\}"
    r"|\\(?:verb\*?|lstinline(?:\[[^\[\]\n]{0,200}\])?)([^\w\s*{\[])([^\n]{0,500}?)\2"
)
_GERMAN = re.compile(r"\\usepackage\s*\[[^\[\]]{0,300}german[^\[\]]{0,300}\]\s*\{babel\}|\\usepackage\s*\{n?german\}")
_UMLAUT = re.compile(r'"([aouAOUs`\'])')
_UMLAUTS = dict(zip("aouAOUs`'", "äöüÄÖÜß„“", strict=True))
_BEGIN = re.compile(r"\\begin\s*\{document\}")
_TITLE = re.compile(r"\\title\s*+(?:\[[^\[\]]{0,300}\]\s*+)?(?=\{)")
_ITEM = re.compile(r"\\bibitem\s*\[")
_KEY = re.compile(r"\]\s*\{([^{}]{1,200})\}")
_AUTHOR_YEAR = re.compile(r"(.{1,200}?)\((\d{4}[a-z]?)\)", re.DOTALL)


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".tex", ".ltx", ".tar")


def companions(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each file, the other sources of its folder and of those below it."""
    folders: dict[PurePosixPath, list[str]] = {}
    for name in names:
        if name.lower().endswith(_SOURCES):
            for folder in PurePosixPath(name).parents[:4]:
                folders.setdefault(folder, []).append(name)
    found = {name: folders.get(PurePosixPath(name).parent, []) for name in names if name.lower().endswith(_SOURCES)}
    return {name: tuple(sorted({*near} - {name})) for name, near in found.items() if 1 < len(near) <= MAX_FILES}


def read(piece: Piece, config: Config, companions: Sequence[Piece] = ()) -> Iterator[Record]:
    """Reasons: `part_of_paper`, `not_latex`, `macros_without_end`, `inputs_without_end`, `corrupt_tar`, `binary_file`,
    `invalid_utf8`, and those of every file."""

    def parse(data: bytes, record: Record, config: Config) -> None:
        if data[257:262] == b"ustar":
            files = _members(data)
        else:
            files = {piece.name: data}
            left = config.max_record_bytes - len(data)
            for other in companions:
                with other.open() as file:
                    files[other.name] = bounded(plain_chunks(file), left)
                left -= len(files[other.name])
        _paper(files, piece.name, record)

    return one_record(piece, config, "text/x-tex", parse)


def _members(data: bytes) -> dict[str, bytes]:
    """The sources in a tar file. They stay in memory, so their paths cannot lead anywhere."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number >= MAX_FILES:
                    break
                if member.isfile() and member.name.lower().endswith(_SOURCES):
                    opened = archive.extractfile(member)
                    files[posixpath.normpath(member.name)] = opened.read() if opened else b""
    except (tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise ReadFault("corrupt_tar", str(error)) from error
    return files


def _paper(files: Mapping[str, bytes], name: str, record: Record) -> None:
    if name in files:
        main, roots = name, [name] if b"\\documentclass" in files[name] or b"\\documentstyle" in files[name] else []
    else:
        roots = sorted(one for one, data in files.items() if b"\\documentclass" in data or b"\\documentstyle" in data)
        main = max(roots, key=lambda one: (-one.count("/"), len(files[one])), default="")
    if not roots:
        if any(b"\\documentclass" in data for data in files.values()):
            raise ReadFault("part_of_paper", "another file of its folder has the \\documentclass")
        raise ReadFault("not_latex", "no \\documentclass")
    kept: list[str] = []
    folder = posixpath.dirname(main)
    source, record.charset = _decoded(files[main])
    budget = [MAX_REPEATS * sum(map(len, files.values()))]
    source = _with_inputs(_without_comments(source, kept), files, folder, kept, budget, 0)
    if _GERMAN.search(source):
        source = _UMLAUT.sub(lambda found: _UMLAUTS[found[1]], source)
    expanded = Macros(len(source)).expand(source)
    begin = _BEGIN.search(expanded)
    body = expanded[begin.end() :] if begin else expanded
    writer = LatexText(_labels(files), kept)
    title = _TITLE.search(expanded)
    if title and (end := closings(expanded).get(title.end())):
        record.title = writer.text(expanded[title.end() + 1 : end]).replace("\n", " ") or None
    text = writer.text(body.partition("\\end{document}")[0])
    is_in_body = title is not None and begin is not None and title.start() > begin.end()
    record.text = text if is_in_body or not record.title else f"{record.title}\n\n{text}"


def _decoded(data: bytes) -> tuple[str, str]:
    found, charset = decode(data)
    return found.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n"), charset


def _without_comments(source: str, kept: list[str]) -> str:
    """Verbatim parts become marks: their number in `kept` between two zeros."""
    parts: list[str] = []
    at = 0
    missing: set[str] = set()
    while (begin := _VERBATIM.search(source, at)) is not None:
        if begin[2]:
            kept.append(begin[3])
            parts += (source[at : begin.start()], f"\0{len(kept) - 1}\0")
            at = begin.end()
            continue
        ending = f"\\end{{{begin[1]}}}"
        end = -1 if ending in missing else source.find(ending, begin.end())
        parts.append(source[at : begin.start()])
        at = begin.end()
        if end < 0:
            missing.add(ending)
            continue
        kept.append(source[at:end].strip("\n"))
        parts.append(f"\n\n\0{len(kept) - 1}\0\n\n")
        at = end + len(ending)
    parts.append(source[at:])
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == "\\" else "", "".join(parts))


def _with_inputs(
    source: str, files: Mapping[str, bytes], folder: str, kept: list[str], budget: list[int], depth: int
) -> str:
    """The source with the files that it includes, whose bytes are taken from the budget."""

    def included(found: re.Match[str]) -> str:
        name = posixpath.normpath(posixpath.join(folder, (found[1] or found[2]).strip()))
        data = files.get(name, files.get(f"{name}.tex"))
        if data is None or depth == MAX_INPUT_DEPTH:
            return ""
        budget[0] -= len(data)
        if budget[0] < 0:
            raise ReadFault("inputs_without_end", f"files are included more than {MAX_REPEATS} times on average")
        return _with_inputs(_without_comments(_decoded(data)[0], kept), files, folder, kept, budget, depth + 1)

    return _INPUT.sub(included, source)


def _labels(files: Mapping[str, bytes]) -> dict[str, str]:
    """{key: author and year} of the references, for styles that have them."""
    found: dict[str, str] = {}
    for name, data in files.items():
        if not name.lower().endswith(".bbl"):
            continue
        source = data.decode(errors="replace")
        for item in _ITEM.finditer(source):
            key = _KEY.search(source, item.end(), item.end() + 1000)
            label = _AUTHOR_YEAR.match(source, item.end(), key.start()) if key else None
            if key and label:
                author = LatexText({}, []).text(label[1])
                found[key[1].strip()] = f"{author}, {label[2]}"
    return found


STAGE = Reader(
    version=3,
    config=Config,
    libraries=("resiliparse", "zstandard"),
    positions=text.POSITIONS,
    beside=("part_of_paper",),
    splittable=text.splittable,
    wanted=text.wanted,
    other_suffix=text.other_suffix,
    skipped_folder=text.skipped_folder,
    companions=companions,
    read=read,
)
