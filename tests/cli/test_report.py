"""gristmill report: its numbers equal the funnel and the documents, and nothing in it can run."""

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
def report(everything):
    return gristmill.open(everything.project.recipe).report()


def tables(text):
    """Return the rows of cells of each section."""
    sections = {}
    for title, body in re.findall(r"<h2>(.*?)</h2>(.*?)</section>", text, re.S):
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
        cells = [[html.unescape(cell) for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row, re.S)] for row in rows]
        sections[html.unescape(title)] = cells
    return sections


def test_the_report_has_the_numbers_of_the_corpus(everything, report):
    """Funnel, reasons and languages equal those of other commands; every chart has its table."""
    sections = tables(report)
    expected = {"Funnel", "Removals", "Languages", "Signals and scores", "Clusters of near duplicates", "Contamination"}
    assert expected | {"Personal data", "Tokenizer", "Mixture", "Packing", "Cost"} <= {*sections}
    all_funnels = funnels(everything.run)
    kept = sum(funnel["kept"]["rows"] for funnel in all_funnels.values())
    assert sections["Funnel"][-1][2] == f"{kept:,}"
    reasons = {
        (step, reason, source): counts["rows"]
        for source, funnel in all_funnels.items()
        for step in funnel["first"]
        for reason, counts in funnel["first"][step].items()
    }
    assert {tuple(row[:3]): int(row[3]) for row in sections["Removals"][1:]} == reasons
    assert report.count("<svg") == report.count("<figure")
    assert all(len(rows) > 1 for rows in sections.values())
    assert sum(int(row[2]) for row in sections["Languages"][1:]) <= kept


def test_histograms_count_every_document_once(everything):
    """Every kept or removed document with a value is within the edges or counted as outside."""
    measure = Measure("words", "signals.words", {12.0: "min_words"})
    drawn = histograms.draw(everything.run, [measure])
    histogram = histograms.count(measure, drawn)
    reader = ColumnReader(everything.run, ["signals.words", "kept"], kept=None)
    rows = [row for batch in reader.batches() for row in batch.to_pylist() if row["signals.words"] is not None]
    for side, is_kept in ((KEPT, True), (REMOVED, False)):
        values = [row["signals.words"] for row in rows if row["kept"] is is_kept]
        assert (histogram.counts[side] == np.histogram(values, histogram.edges)[0]).all()
    assert sum(int(counts.sum()) for counts in histogram.counts.values()) + histogram.outside == len(rows)
    assert histogram.edges[0] <= 12 <= histogram.edges[-1]


def test_a_large_corpus_is_sampled_deterministically(everything):
    """The sample takes every n-th document across the parts; a second read gets the same documents."""
    measure = Measure("bytes", "text_bytes")
    all_documents, sample, again = (histograms.draw(everything.run, [measure], most) for most in (10**6, 8, 8))
    assert all_documents.every == 1 < sample.every
    assert 0 < len(sample.is_kept) < len(all_documents.is_kept)
    assert (sample.values["bytes"] == again.values["bytes"]).all()


def test_another_version_is_shown_for_comparison(everything):
    """Compared with itself nothing changes; the histograms have a second curve."""
    text = gristmill.open(everything.project.recipe).report(against="v1")
    sections = tables(text)
    assert {row[-1] for row in sections["Removals"][1:]} == {"+0"}
    assert "(+0.0%)" in text
    assert "dashed line" in text


def test_nothing_in_a_name_can_run(project, in_this_process):
    """Reasons of a custom step may contain markup, control characters or bidirectional overrides."""
    (project.folder / "hostile.py").write_text(OWN_STEP)
    project.write_inputs(1, 30)
    project.write_recipe("\n  - hostile\n", pattern="in/00.jsonl")
    project.run()
    text = gristmill.open(project.recipe).report()
    assert "<script" not in text
    assert not re.search("[\u202e\x1b]", text)
    assert "default-src 'none'" in text
    assert not re.search(r"\bon\w+=|javascript:|<link|src=|@import|url\((?!#)", text)


def test_a_missing_extra_is_named(everything, say, monkeypatch, tmp_path):
    """The check comes before any work."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for arguments in (
        ["report", everything.project.recipe, "--out", tmp_path / "a.html"],
        ["run", everything.project.recipe, "--report", tmp_path / "a.html"],
    ):
        output = say(*arguments)
        assert output.code == 2
        assert "pip install 'gristmill[report]'" in output.err


def test_a_run_writes_its_report(project, say, tmp_path):
    """`run --report FILE` writes it; --until is refused, because it stops before the report."""
    project.write_inputs(1, 20)
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    output = say("run", project.recipe, "--report", tmp_path / "a.html")
    assert output.code == 0
    assert "Funnel" in tables((tmp_path / "a.html").read_text())
    output = say("run", project.recipe, "--report", tmp_path / "b.html", "--until", "length")
    assert output.code == 2
    assert "Leave one out" in output.err


def test_wrong_input_is_one_message(everything, say, tmp_path):
    """This covers a missing folder, an invalid count or price and an unknown version."""
    recipe = everything.project.recipe
    assert "cannot be written" in say("report", recipe, "--out", tmp_path / "no" / "a.html").err
    assert "not a count" in say("report", recipe, "--out", tmp_path / "a.html", "--tokens", "many").err
    assert "--tokens 0 is not above 0" in say("report", recipe, "--out", tmp_path / "a.html", "--tokens", "0").err
    assert (
        "--core-hour inf is not a price"
        in say("report", recipe, "--out", tmp_path / "a.html", "--core-hour", "inf").err
    )
    assert say("report", recipe, "--out", tmp_path / "a.html", "--against", "v9").code == 2


def test_ids_of_charts_are_distinct(report):
    """All charts share one page and refer to their own gradients and clips."""
    ids = re.findall(r'\bid="(.*?)"', report)
    assert len(ids) == len(set(ids))
    assert page.LIBRARIES == ("jinja2", "vl_convert")
