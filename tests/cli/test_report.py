"""gristmill report: its numbers are those of the funnel and of the documents, and nothing in it can run."""

import html
import importlib.util
import re

import numpy as np
import pytest

import gristmill
from gristmill.query.documents.columns import ColumnReader
from gristmill.query.removal.funnel import funnels
from gristmill.report.corpus import histograms, page
from gristmill.report.corpus.histograms import KEPT, REMOVED, Measure

OWN_STEP = """
import pyarrow as pa
from gristmill.stages.contract import Map, StageConfig

REASON = "</svg></style><script>alert(1)</script>\\u202e\\x1b[2J"


SCHEMA = pa.schema([("drop", pa.string())])


class Config(StageConfig):
    pass


def apply(batch, config):
    texts = batch.column("text").to_pylist()
    reasons = pa.array([REASON if len(text or "") % 2 else None for text in texts], pa.string())
    return pa.RecordBatch.from_arrays([reasons], schema=SCHEMA)


STAGE = Map(version=1, config=Config, reads=("text",), schema=SCHEMA, apply=apply)
"""


@pytest.fixture(scope="module")
def written(everything):
    return gristmill.open(everything.project.recipe).report()


def tables(text):
    """Per section: its rows of cells."""
    found = {}
    for title, body in re.findall(r"<h2>(.*?)</h2>(.*?)</section>", text, re.S):
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
        cells = [[html.unescape(cell) for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row, re.S)] for row in rows]
        found[html.unescape(title)] = cells
    return found


def test_the_report_has_the_numbers_of_the_corpus(everything, written):
    """Funnel, reasons and languages are those that other commands show; every chart has its table."""
    found = tables(written)
    wanted = {"Funnel", "Removals", "Languages", "Signals and scores", "Clusters of near duplicates", "Contamination"}
    assert wanted | {"Personal data", "Tokenizer", "Mixture", "Packing", "Cost"} <= {*found}
    known = funnels(everything.run)
    kept = sum(one["kept"]["rows"] for one in known.values())
    assert found["Funnel"][-1][2] == f"{kept:,}"
    reasons = {
        (step, why, source): taken["rows"]
        for source, one in known.items()
        for step in one["first"]
        for why, taken in one["first"][step].items()
    }
    assert {tuple(row[:3]): int(row[3]) for row in found["Removals"][1:]} == reasons
    assert written.count("<svg") == written.count("<figure")
    assert all(len(rows) > 1 for rows in found.values())
    assert sum(int(row[2]) for row in found["Languages"][1:]) <= kept


def test_histograms_count_every_document_once(everything):
    """Kept and removed documents that have a value are all inside of the edges, or counted as outside."""
    measure = Measure("words", "signals.words", {12.0: "min_words"})
    drawn = histograms.draw(everything.run, [measure])
    found = histograms.count(measure, drawn)
    read = ColumnReader(everything.run, ["signals.words", "kept"], kept=None)
    rows = [row for batch in read.batches() for row in batch.to_pylist() if row["signals.words"] is not None]
    for side, is_kept in ((KEPT, True), (REMOVED, False)):
        values = [row["signals.words"] for row in rows if row["kept"] is is_kept]
        assert (found.counts[side] == np.histogram(values, found.edges)[0]).all()
    assert sum(int(one.sum()) for one in found.counts.values()) + found.outside == len(rows)
    assert found.edges[0] <= 12 <= found.edges[-1]


def test_a_large_corpus_is_read_in_part_and_always_the_same_part(everything):
    """One document of so many, spread over the parts; a second reading draws the same ones."""
    measure = Measure("bytes", "text_bytes")
    whole, some, again = (histograms.draw(everything.run, [measure], most) for most in (10**6, 8, 8))
    assert whole.every == 1 < some.every
    assert 0 < len(some.is_kept) < len(whole.is_kept)
    assert (some.values["bytes"] == again.values["bytes"]).all()


def test_another_version_is_shown_beside(everything):
    """Against itself nothing changes; the histograms have a second curve."""
    text = gristmill.open(everything.project.recipe).report(against="v1")
    found = tables(text)
    assert {row[-1] for row in found["Removals"][1:]} == {"+0"}
    assert "(+0.0%)" in text
    assert "dashed line" in text


def test_nothing_in_a_name_can_run(project, in_this_process):
    """Reasons of an own step that are markup, control characters or change the direction of text."""
    (project.folder / "hostile.py").write_text(OWN_STEP)
    project.write_inputs(1, 30)
    project.write_recipe("\n  - hostile\n", pattern="in/00.jsonl")
    project.run()
    text = gristmill.open(project.recipe).report()
    assert "<script" not in text
    assert not re.search("[\u202e\x1b]", text)
    assert "default-src 'none'" in text
    assert not re.search(r"\bon\w+=|javascript:|<link|src=|@import|url\((?!#)", text)


def test_the_extra_is_named(everything, say, monkeypatch, tmp_path):
    """Before anything is run, too."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for words in (
        ["report", everything.project.recipe, "--out", tmp_path / "a.html"],
        ["run", everything.project.recipe, "--report", tmp_path / "a.html"],
    ):
        said = say(*words)
        assert said.code == 2
        assert "pip install 'gristmill[report]'" in said.err


def test_a_run_writes_its_report(project, say, tmp_path):
    """`run --report FILE`; not with --until, which ends before there is one."""
    project.write_inputs(1, 20)
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    said = say("run", project.recipe, "--report", tmp_path / "a.html")
    assert said.code == 0
    assert "Funnel" in tables((tmp_path / "a.html").read_text())
    said = say("run", project.recipe, "--report", tmp_path / "b.html", "--until", "length")
    assert said.code == 2
    assert "Leave one out" in said.err


def test_wrong_input_is_one_message(everything, say, tmp_path):
    """A folder that is not there, a count that is none, a version that does not exist."""
    recipe = everything.project.recipe
    assert "cannot be written" in say("report", recipe, "--out", tmp_path / "no" / "a.html").err
    assert "not a count" in say("report", recipe, "--out", tmp_path / "a.html", "--tokens", "many").err
    assert say("report", recipe, "--out", tmp_path / "a.html", "--against", "v9").code == 2


def test_ids_of_charts_are_distinct(written):
    """All charts share one page, and refer to their own gradients and clips."""
    ids = re.findall(r'\bid="(.*?)"', written)
    assert len(ids) == len(set(ids))
    assert page.LIBRARIES == ("jinja2", "vl_convert")
