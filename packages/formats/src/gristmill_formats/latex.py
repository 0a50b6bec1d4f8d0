"""Reads papers in LaTeX, one document per paper: a file, a tar file (as arXiv has them), or a folder of files.

The text is title and body; comments, preamble and references are left out. `\\input` is followed inside the tar file or
the folder, macros of the paper are expanded, formulas stay TeX. Author-year citations are those of the `.bbl` file;
numbers of citations are left out. A file without `\\documentclass` is part of a paper if its folder, or one above it,
has a file with one.
"""

import functools
import io
import posixpath
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gristmill.counted import counted
from gristmill.places import shown
from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader
from gristmill.stages.ingest import whole_file
from gristmill.stages.ingest.decode import decode
from gristmill.stages.ingest.whole_file import TreeConfig, one_record
from gristmill.stages.reading.decompress import UNPACKING, ReadFault
from gristmill.stages.reading.stream import bounded, decompressed, peek, without_compression_suffix
from gristmill_formats.tex.commands import SIGNS
from gristmill_formats.tex.expand import Macros, closings
from gristmill_formats.tex.latex_text import LatexText
from gristmill_formats.tex.references import referred, titles

MAX_INPUT_DEPTH = 10
MAX_LEVELS = 4
"""How many folders of a path may belong to one paper."""
MAX_TITLE_CHARS = 100
"""A section with a longer title is referred to by its label."""
MAX_REPEATS = 4
"""How often, on average, a file of a paper may be included."""
MAX_FILES = 1000
"""Files of one folder or tar file that belong to a paper. In a larger folder, each file is a paper."""
_THEOREM = re.compile(r"\\newtheorem\*?\s*\{([^{}]{1,60})\}\s*(?:\[[^\[\]]{0,60}\])?\s*\{([^{}]{1,60})\}")
_SOURCES = (".tex", ".bbl", ".ltx")
_ARXIV = re.compile(r"(?:\d{4}\.\d{4,5}|(?:[a-z-]{2,10}(?:\.[A-Z]{2})?)?\d{7})(?:v\d{1,2})?(?:\.tar)?(?:\.gz)?")
"""2103.00002, 2103.00003v2.gz, hep-th9901001.gz: a tar file, or a file of LaTeX."""
_HEAD_BYTES = 1 << 16
_INPUT = re.compile(
    r"\\(?:input|include|subfile|(?:sub)?import\*?\s*\{([^{}]{0,300})\})\s*\{([^{}]{1,300})\}|\\input\s+([^\s{}\\]{1,300})"
)
_AS_IT_IS = (
    r"(?<!\\)((?:\\\\)*+)%[^\n]*(?:\n[ \t]*)?"
    r"|\\begin\{(verbatim\*?|lstlisting|minted|(?:[BL]|sphinx)?Verbatim\*?|alltt!NAMED!)\}"
    r"(\[[^\[\]]{0,300}\])?+(?:\{[^{}\n]{0,40}\}(?=\n))?"
    r"|\\(?:verb\*?|lstinline(?:\[[^\[\]\n]{0,200}\])?)([^\w\s*{\[])([^\n]{0,500}?)\4"
    r"|\\(?:url|nolinkurl|path|href)\s?\{([^{}\n#]{0,1000})\}"
)
"""A comment, a verbatim environment, verbatim text in a line, an address: the parts in which % has its own meaning."""
_SHORT = re.compile(
    r"\\(?:Make|Define)ShortVerb\*?\s*\{?\\([^\w\s\\{}%])|\\documentclass[^{}\n]{0,200}\{(?:ltxdoc|l3doc|ltxguide)\}"
)
"""The sign between which text is verbatim; | in documents of LaTeX's own classes for manuals."""
_VERBATIM = re.compile(
    r"\\(?:(?:(?:Define|Recustom)VerbatimEnvironment|lstnewenvironment|newtcblisting)\s*(?:\[[^\[\]]{0,300}\]\s*)?"
    r"\{([A-Za-z@]{1,40}\*?)\}((?:\s*\{[^{}\n]{0,40}\}\s*\{[^\n]{0,300})?)"
    r"|newminted\s*(?:\[([A-Za-z@]{1,40})\])?\{(\w{1,40})\}"
    r"|(?:re)?newenvironment\s*\{([A-Za-z@]{1,40})\}\s*\{\s*\\(?:verbatim|[BL]?Verbatim|VerbatimEnvironment|alltt)\b)"
)
"""An environment of the paper whose text is verbatim. With `commandchars`, commands in it have their meaning."""
MAX_VERBATIM = 50
"""Such environments of one paper."""
_IN_CODE = re.compile(r"\\PYG?\{[^{}]{0,40}\}|\\(?:PYG?Z)?([A-Za-z@]+)(?:\{\})?|\\([^\w\s])|[{}]")
"""A command in such text: those of Pandoc, and of Pygments with the kind of a word in its first group."""
_PYGMENTS = dict(
    re.findall(
        r"(\w+)=(\S)", r"""bs=\ us=_ ob={ cb=} ca=^ am=& lt=< gt=> sh=# pc=% dl=$ hy=- sq=' dq=" ti=~ at=@ lb=[ rb=]"""
    )
)
_ESCAPED = re.compile(r"\\([%#&_~{}])")
_CONDITION = re.compile(r"\\(if(?!f\b|thenelse)[A-Za-z@]*|else|fi)(?![A-Za-z@])")
_GERMAN = re.compile(r"\\usepackage\s*\[[^\[\]]{0,300}german[^\[\]]{0,300}\]\s*\{babel\}|\\usepackage\s*\{n?german\}")
_UMLAUT = re.compile(r'"([aouAOUs`\'|=~-])')
_UMLAUTS = dict(zip("aouAOUs`'|=~-", (*"äöüÄÖÜß„“", "", "-", "-", ""), strict=True))
_BEGIN = re.compile(r"\\begin\s*\{document\}")
_TITLE = re.compile(r"\\title\s*+(?:\[[^\[\]]{0,300}\]\s*+)?(?=\{)")
_ABSTRACT = re.compile(r"\\abstract\s*+(?=\{)")
_ITEM = re.compile(r"\\bibitem\s*\[")
_KEY = re.compile(r"\]\s*\{([^{}]{1,200})\}")
_AUTHOR_YEAR = re.compile(r"(.{1,200}?)(?:\((\d{4}[a-z]?)\)|,\s(\d{4}[a-z]?)$)", re.DOTALL)


class Config(TreeConfig):
    suffixes: tuple[str, ...] = (".tex", ".ltx", ".tar")


def wanted(name: str, config: Config) -> bool:
    """A `.bbl` file is read with a paper. A file that is named for its number in arXiv needs no suffix."""
    if "suffixes" not in config.model_fields_set and _ARXIV.fullmatch(posixpath.basename(name)):
        return whole_file.skipped_folder(name, config) is None
    return whole_file.wanted(name.removesuffix(".bbl") + ".tex" if name.endswith(".bbl") else name, config)


def companions(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """For each file, the sources of its folder, of those below and above it; none if they are too many."""
    sources = [name for name in names if without_compression_suffix(name).lower().endswith(_SOURCES)]
    below: dict[PurePosixPath, list[str]] = {}
    inside: dict[PurePosixPath, list[str]] = {}
    for name in sources:
        inside.setdefault(PurePosixPath(name).parent, []).append(name)
        for folder in PurePosixPath(name).parents[:MAX_LEVELS]:
            below.setdefault(folder, []).append(name)
    found: dict[str, tuple[str, ...]] = {}
    for folder, own in inside.items():
        above = [inside.get(parent, []) for parent in folder.parents[: MAX_LEVELS - 1]]
        size = len(below[folder]) + sum(map(len, above))
        if size > 1:
            near = (one for some in (below[folder], *above) for one in some)
            found |= dict.fromkeys(own, tuple(sorted(near)) if size <= MAX_FILES else ())
    return found


def read(piece: Piece, config: Config, companions: Sequence[Piece] | None = None) -> Iterator[Record]:
    """Reasons: `part_of_paper`, `folder_too_large`, `not_latex`, `macros_without_end`, `inputs_without_end`,
    `corrupt_tar`, `binary_file`, `invalid_utf8`, and those of every file."""

    def parse(data: bytes, record: Record, config: Config) -> None:
        if data[257:262] == b"ustar":
            files = _Sources(_members(data))
            roots = sorted(one for one in files.names if _is_root(files.read(one)))
            main = max(roots, key=lambda one: (-one.count("/"), len(files.read(one))), default="")
        else:
            name = without_compression_suffix(piece.name)
            main = name if _is_root(data) and not name.lower().endswith(".bbl") else ""
            if not main and companions == ():
                raise ReadFault("folder_too_large", f"no \\documentclass, and more than {MAX_FILES} files to search")
            if not main and companions and _has_root_above(name, companions):
                raise ReadFault(
                    "part_of_paper", "another file of its folder, or of one above it, has the \\documentclass"
                )
            files = _Sources({name: data}, companions or () if main else (), config.max_record_bytes - len(data))
        if not main:
            raise ReadFault("not_latex", "no \\documentclass")
        _paper(files, main, record)

    return one_record(piece, config, "text/x-tex", parse)


def _is_root(data: bytes) -> bool:
    return b"\\documentclass" in data or b"\\documentstyle" in data


def _has_root(piece: Piece) -> bool:
    with piece.open() as file:
        return _is_root(peek(decompressed(file)[1], _HEAD_BYTES)[0])


@dataclass(frozen=True, eq=False)
class _Same:
    """The companions of a file. They are searched once for all files that share them."""

    pieces: Sequence[Piece]

    def __hash__(self) -> int:
        return id(self.pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.pieces is self.pieces


@functools.lru_cache(maxsize=1)
def _folders_with_root(files: _Same) -> frozenset[str]:
    return frozenset(posixpath.dirname(one.name) for one in files.pieces if _has_root(one))


def _has_root_above(name: str, others: Sequence[Piece]) -> bool:
    """Whether a file of its folder, or of one above it, has the \\documentclass."""
    folders = {str(parent).removesuffix(".") for parent in PurePosixPath(name).parents}
    return not folders.isdisjoint(_folders_with_root(_Same(others)))


class _Sources:
    """The files of a paper, by name. Those of a folder are read when the paper includes them."""

    def __init__(self, held: dict[str, bytes], others: Sequence[Piece] = (), left: int = 0) -> None:
        self._held, self._left = held, left
        self._others = {without_compression_suffix(one.name): one for one in others}
        self.names = (*held, *self._others)
        self._bytes, self._included = sum(map(len, held.values())), 0

    def read(self, name: str) -> bytes:
        if name not in self._held:
            with self._others[name].open() as file:
                data = self._held[name] = bounded(decompressed(file)[1], self._left)
            self._left, self._bytes = self._left - len(data), self._bytes + len(data)
        return self._held[name]

    def find(self, name: str) -> str | None:
        """The file with this name, or with its suffix added."""
        return next((one for one in (name, f"{name}.tex") if one in self._held or one in self._others), None)

    def include(self, name: str) -> bytes:
        """A file. Raises ReadFault if files are included too often."""
        data = self.read(name)
        self._included += len(data)
        if self._included > MAX_REPEATS * self._bytes:
            raise ReadFault("inputs_without_end", f"files are included more than {MAX_REPEATS} times on average")
        return data


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


def _paper(files: _Sources, main: str, record: Record) -> None:
    kept: list[str] = []
    folder = posixpath.dirname(main)
    source, record.charset = _decoded(files.read(main))
    short = _SHORT.search(source, 0, _HEAD_BYTES)
    environments = _environments(source, files, folder)
    code = _VerbatimParts(
        kept,
        _verbatim(short[1] or "|" if short else "", tuple(environments)),
        {"alltt", *(name for name, has_commands in environments.items() if has_commands)},
    )
    source = _with_inputs(_without_comments(source, code), files, folder, code, (main,))
    if _GERMAN.search(source):
        source = _UMLAUT.sub(lambda found: _UMLAUTS[found[1]], source)
    expanded = Macros(len(source)).expand(source)
    begin = _BEGIN.search(expanded)
    body = expanded[begin.end() :] if begin else expanded
    theorems = {name: LatexText({}, []).text(label) for name, label in _THEOREM.findall(expanded)}
    close = closings(expanded)
    writer = LatexText(_labels(files, main), kept, theorems, referred(expanded))
    found = {key: LatexText({}, kept).text(one).replace("\n", " ") for key, one in titles(expanded, close).items()}
    writer.titles = {key: one for key, one in found.items() if 0 < len(one) <= MAX_TITLE_CHARS}
    title = _TITLE.search(expanded)
    if title and (end := close.get(title.end())):
        record.title = " ".join(writer.text(expanded[title.end() + 1 : end]).split()) or None
    parts = [writer.text(body.partition("\\end{document}")[0])]
    abstract = _ABSTRACT.search(expanded, 0, begin.start()) if begin else None
    if abstract and (end := close.get(abstract.end())):
        parts.insert(0, writer.text(expanded[abstract.end() + 1 : end]))
    is_in_body = title is not None and begin is not None and title.start() > begin.end()
    if record.title and not is_in_body:
        parts.insert(0, record.title)
    record.text = "\n\n".join(filter(None, parts))


def _decoded(data: bytes) -> tuple[str, str]:
    found, charset = decode(data)
    return found.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n"), charset


def _environments(source: str, files: _Sources, folder: str) -> dict[str, bool]:
    """{environment of verbatim text: whether commands in it have their meaning}, as the main file of a paper defines
    them, or one that its preamble includes."""
    names: dict[str, bool] = {}
    preamble = source.partition("\\begin{document}")[0]
    included = (files.find(_included_name(one, folder)) for one in _INPUT.finditer(preamble))
    for one in (source, *(_decoded(files.include(name))[0] for name in included if name is not None)):
        for found in _VERBATIM.finditer(one):
            name, options, minted, language, other = found.groups()
            names[name or minted or other or f"{language}code"] = "commandchars" in (options or "")
    return dict(list(names.items())[:MAX_VERBATIM])


def _included_name(found: re.Match[str], folder: str) -> str:
    return posixpath.normpath(posixpath.join(folder, found[1] or "", (found[2] or found[3]).strip()))


@functools.lru_cache(maxsize=64)
def _verbatim(sign: str, environments: tuple[str, ...]) -> re.Pattern[str]:
    short = re.escape(sign)
    named = "".join(f"|{re.escape(name)}" for name in environments)
    return re.compile(
        _AS_IT_IS.replace("!NAMED!", named) + (rf"|(?<!\\){short}([^{short}\n]{{1,300}}){short}" if sign else "|(?!)()")
    )


@dataclass(frozen=True)
class _VerbatimParts:
    """The verbatim parts of a paper."""

    kept: list[str]
    pattern: re.Pattern[str]
    with_commands: set[str]
    """Environments in which commands have their meaning."""


def _without_comments(source: str, code: _VerbatimParts) -> str:
    """Verbatim parts become marks: their number in `kept` between two zeros."""
    kept, verbatim = code.kept, code.pattern
    parts: list[str] = []
    at = 0
    missing: set[str] = set()
    while (found := verbatim.search(source, at)) is not None:
        parts.append(source[at : found.start()])
        at = found.end()
        backslashes, name, options, _, inline, address, short = found.groups()
        if backslashes is not None:
            parts.append(backslashes)
        elif name is None:
            text = _ESCAPED.sub(r"\1", address) if address is not None else inline if short is None else short
            if found[0].startswith("\\href"):
                parts.append("\\href{}")
            else:
                kept.append(text)
                parts.append(f"\0{len(kept) - 1}\0")
        else:
            ending = f"\\end{{{name}}}"
            end = -1 if ending in missing else source.find(ending, at)
            if end < 0:
                missing.add(ending)
                continue
            text = source[at:end].strip("\n")
            has_commands = name in code.with_commands or "commandchars" in (options or "")
            kept.append(_IN_CODE.sub(_written, text) if has_commands else text)
            parts.append(f"\n\n\0{len(kept) - 1}\0\n\n")
            at = end + len(ending)
    parts.append(source[at:])
    return _without_false("".join(parts))


def _written(found: re.Match[str]) -> str:
    """What a command in code leaves: its sign, or nothing."""
    name: str = found[1] or ""
    if found[0].startswith("\\PY"):
        return str(_PYGMENTS.get(name, ""))
    sign: str = found[2] or ""
    return str(SIGNS.get(name, sign))


def _without_false(source: str) -> str:
    """Without \\iffalse ... \\fi, unless the end is missing; of \\else, the second part stays."""
    parts: list[str] = []
    at = depth = 0
    for found in _CONDITION.finditer(source):
        if found[1] == "iffalse" and not depth:
            parts.append(source[at : found.start()])
            at, depth = found.start(), 1
        elif depth:
            depth += {"fi": -1, "else": 0}.get(found[1], 1)
            if not depth or (found[1] == "else" and depth == 1):
                at, depth = found.end(), 0
    return "".join((*parts, source[at:]))


def _with_inputs(source: str, files: _Sources, folder: str, code: _VerbatimParts, chain: tuple[str, ...]) -> str:
    """The source with the files that it includes; `chain` has the files that include each other, up to this one."""

    def included(found: re.Match[str]) -> str:
        name = files.find(_included_name(found, folder)) if len(chain) <= MAX_INPUT_DEPTH else None
        if name is None:
            return ""
        if name in chain:
            through = counted(len(chain), "file")
            raise ReadFault("inputs_without_end", f"{shown(name)} includes itself, through {through}")
        text = _without_comments(_decoded(files.include(name))[0], code)
        return _with_inputs(text, files, folder, code, (*chain, name))

    return _INPUT.sub(included, source)


def _labels(files: _Sources, main: str) -> dict[str, str]:
    """{key: author and year} of the references, for styles that have them."""
    found: dict[str, str] = {}
    own = f"{posixpath.splitext(main)[0]}.bbl"
    for name in (own,) if own in files.names else (one for one in files.names if one.lower().endswith(".bbl")):
        source = files.read(name).decode(errors="replace")
        for item in _ITEM.finditer(source):
            key = _KEY.search(source, item.end(), item.end() + 1000)
            label = _AUTHOR_YEAR.match(source, item.end(), key.start()) if key else None
            if key and label:
                author = LatexText({}, []).text(label[1])
                found[key[1].strip()] = f"{author}, {label[2] or label[3]}"
    return found


STAGE = Reader(
    version=8,
    config=Config,
    libraries=("resiliparse", *UNPACKING),
    positions=whole_file.POSITIONS,
    beside=("part_of_paper",),
    wanted=wanted,
    other_suffix=whole_file.other_suffix,
    skipped_folder=whole_file.skipped_folder,
    companions=companions,
    read=read,
)
