"""The work of reading a file grows no faster than the file, for any content.

Work is counted (fuzz/meter.py), not timed: every input of attacks.py is read at two sizes.
"""

import importlib
import math
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from fuzz.meter import METER, METERED, TooMuchWork
from fuzz.windows import small_windows
from tests.laws.attacks import ATTACKS, Attack

QUICK = {
    ("warc", "headers without end"),
    ("warc", "gzip members in a body"),
    ("warc_gz", "newlines"),
    ("warc_gz", "gzip magic with flags b'\\x08'"),
    ("jsonl", "newlines in gzip"),
    ("jsonl", "gzip members of a line"),
    ("json", "opened objects"),
    ("csv", "records that never end"),
    ("parquet", "one text for all rows"),
    ("markdown", "rulers"),
    ("code", "SPDX tags"),
    ("robots", "agents"),
    ("recipe", "merges of merges"),
    ("recipe", "opened lists"),
    ("ranks", "a long token"),
    ("manifest", "opened lists"),
    ("index", "zeros"),
    ("scrub", "a table of numbers"),
    ("scrub", "keys that never end"),
}
"""The quick tests: inputs that once took hours, and one of each kind."""

MOST_EXPONENT = 1.15
MOST_WORK_PER_BYTE = 3000
"""Work per byte of decoded input: the cost of the smallest record with all its overhead."""


def _rows(module_name: str, name: str):
    def run(path: Path) -> None:
        module = importlib.import_module(module_name)
        contract = importlib.import_module("gristmill.stages.contract")
        for _ in module.read(contract.Piece(str(path), name), module.Config()):
            pass

    return run


def _one_chunk(module_name: str, name: str):
    """The input is one chunk: small windows hide work that is quadratic within one."""

    def run(path: Path) -> None:
        importlib.import_module("gristmill.stages.reading.stream").CHUNK_BYTES = 1 << 20
        _rows(module_name, name)(path)

    return run


def _stretches(module_name: str, name: str):
    """Reads the same rows in as many stretches as a planner cuts a large file into."""

    def run(path: Path) -> None:
        module = importlib.import_module(module_name)
        contract = importlib.import_module("gristmill.stages.contract")
        step = -(-path.stat().st_size // importlib.import_module("gristmill.engine.files.grouping").MOST_RANGES)
        for start in range(0, path.stat().st_size, step):
            for _ in module.read(contract.Piece(str(path), name, start, start + step), module.Config()):
                pass

    return run


def _pdf(path: Path) -> None:
    """As in the child process, where no work would be counted."""
    document = importlib.import_module("gristmill_pdf.layout.document")
    document.read_document(path.read_bytes(), 10, False, False, lambda pages: None)


def _robots(path: Path) -> None:
    importlib.import_module("gristmill.stages.select.robots_txt").rules_for(path.read_text(), "mill-x")


def _lists(path: Path) -> None:
    importlib.import_module("gristmill.stages.shared.lists").load("block_domains", str(path), "domains")


def _recipe(path: Path) -> None:
    _refused(importlib.import_module("gristmill.recipe.load").load, path, env={"A": "x"})


def _tokenizer(path: Path) -> None:
    _refused(importlib.import_module("gristmill.tokenizer.files").load, str(path))


def _ranks(path: Path) -> None:
    _refused(importlib.import_module("gristmill.tokenizer.files").load, str(path), "gpt2")


def _manifest(path: Path) -> None:
    _refused(importlib.import_module("gristmill.shardformat.manifest").read_manifest, path)


def _index(path: Path) -> None:
    _refused(importlib.import_module("gristmill.shardformat.index").read_index, path)


def _scrub(path: Path) -> None:
    stage = importlib.import_module("gristmill.stages.scrub.scrub")
    finding = importlib.import_module("gristmill.stages.scrub.finding")
    text = [path.read_text()]
    columns = {"text": text, "url": ["https://a.de/"], "source": ["mill"], "locator": text, "language.label": ["en"]}
    stage.apply(
        pa.record_batch(columns), stage.Config(types=[one for one in finding.ALL if one != "name"], max_density=None)
    )


def _decontaminate(path: Path) -> None:
    index = importlib.import_module("gristmill.stages.decontaminate.matching.index")
    form = importlib.import_module("gristmill.stages.decontaminate.suite.form")
    suites = importlib.import_module("gristmill.stages.decontaminate.suite.suite")
    days = [f"the miller ground {n} sacks of rye on the mill by the river on day {n} of the week" for n in range(40)]
    code = "def f(a):\n" + "    a = a + b(a)\n" * 200
    questions = ["mill stone wheel " * 1000, *days, "the water wheel turns"]
    items = [form.Item("b", q, q, "in spring", (), (), "") for q in questions]
    items.append(form.Item("b", "code", "add many numbers to each other in turn", "", (), (code,), ""))
    table = path.with_name("table")
    index.write_index(suites.Suite("s", "1", "", items), 13, 0.8, table)
    METER.reset(METER.limit)  # the index costs the same for any text
    findings = importlib.import_module("gristmill.stages.decontaminate.matching.findings")
    findings.find(pa.array([path.read_text()]), index.open_index(table))


def _refused(load, *args, **kwargs) -> None:
    """Loads, or is rejected with a message."""
    try:
        load(*args, **kwargs)
    except importlib.import_module("gristmill.errors").UserError:
        pass


def _zipped(module_name: str, name: str, member: str):
    """The input is a member of a zip file."""

    def run(path: Path) -> None:
        data = path.read_bytes()
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("META-INF/container.xml", '<rootfile full-path="a.opf"/>')
            file.writestr(
                "a.opf",
                '<package><item id="a" href="chapter.xhtml" media-type="text/html"/><itemref idref="a"/></package>',
            )
            file.writestr(member, data)
        _rows(module_name, name)(path)

    return run


def _wikitext(path: Path) -> None:
    page = b"<mediawiki><page><title>x</title><ns>0</ns><text>" + path.read_bytes() + b"</text></page></mediawiki>"
    path.write_bytes(page)
    _rows("gristmill_formats.mediawiki", "x.xml")(path)


READERS = {
    "warc": _rows("gristmill.stages.ingest.warc", "x.warc"),
    "warc_gz": _rows("gristmill.stages.ingest.warc", "x.warc.gz"),
    "stretches": _stretches("gristmill.stages.ingest.warc", "x.warc.gz"),
    "jsonl": _rows("gristmill.stages.ingest.jsonl", "x.jsonl"),
    "stretches_jsonl": _stretches("gristmill.stages.ingest.jsonl", "x.jsonl"),
    "json": _rows("gristmill.stages.ingest.json_values", "x.json"),
    "csv": _rows("gristmill.stages.ingest.csv_rows", "x.csv"),
    "parquet": _rows("gristmill.stages.ingest.parquet", "x.parquet"),
    "markdown": _rows("gristmill.stages.ingest.text", "x.md"),
    "html": _rows("gristmill.stages.ingest.html_files", "x.html"),
    "pdf": _pdf,
    "code": _rows("gristmill.stages.ingest.code", "x"),
    "epub": _zipped("gristmill_formats.epub", "x.epub", "chapter.xhtml"),
    "jats": _rows("gristmill_formats.jats", "x.xml"),
    "office": _zipped("gristmill_formats.office", "x.docx", "word/document.xml"),
    "latex": _rows("gristmill_formats.latex", "x.tex"),
    "mediawiki": _rows("gristmill_formats.mediawiki", "x.xml"),
    "mediawiki_chunk": _one_chunk("gristmill_formats.mediawiki", "x.xml"),
    "wikitext": _wikitext,
    "subtitles": _rows("gristmill_formats.subtitles", "x.srt"),
    "notebook": _rows("gristmill_formats.notebook", "x.ipynb"),
    "stack_exchange": _rows("gristmill_formats.stack_exchange", "Posts.xml"),
    "mbox": _rows("gristmill_formats.mbox", "x.mbox"),
    "robots": _robots,
    "lists": _lists,
    "recipe": _recipe,
    "tokenizer": _tokenizer,
    "ranks": _ranks,
    "manifest": _manifest,
    "index": _index,
    "scrub": _scrub,
    "decontaminate": _decontaminate,
}


def work_at(attack: Attack, size: int, folder: Path) -> float:
    path = folder / "input"
    path.write_bytes(attack.make(size))
    with METERED, small_windows():
        METER.reset(1_000_000 + MOST_WORK_PER_BYTE * size)
        READERS[attack.reader](path)
    return METER.work


def _row(attack: Attack):
    name = f"{attack.reader}-{attack.what}".replace(" ", "_")
    return pytest.param(attack, id=name, marks=() if attack[:2] in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("attack", [_row(attack) for attack in ATTACKS])
def test_work_grows_no_faster_than_the_input(attack: Attack, tmp_path: Path) -> None:
    """Four times the input takes at most five times the work, and no byte costs more than one of a small record."""
    sizes = [attack.size, 4 * attack.size]
    try:
        work = [work_at(attack, size, tmp_path) for size in sizes]
    except TooMuchWork:
        pytest.fail(f"the work for {sizes} bytes passes every bound")
    exponent = math.log(work[1] / work[0], 4)
    assert exponent <= MOST_EXPONENT, f"work {work} for {sizes} bytes grows with the power {exponent:.2f}"
