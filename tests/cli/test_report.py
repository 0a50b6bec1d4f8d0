"""gristmill report: its numbers equal the funnel and the documents, and nothing in it can run."""

import html
import importlib.util
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import gristmill
from gristmill.install_command import install_extra
from gristmill.query.documents import histograms
from gristmill.query.documents.columns import ColumnReader
from gristmill.query.documents.histograms import KEPT, REMOVED, Measure
from gristmill.query.removal.funnel import funnels
from gristmill.report import charts
from gristmill.report.charts import COLOURS, short_number
from gristmill.report.corpus.sections import _clusters, _mixture, tokens_text
from gristmill.report.corpus.value_sections import quality
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.dedup.clusters import size_histogram
from gristmill.stages.mix.tally import tally

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
    assert expected | {"Personal data", "Mixture", "Cost"} <= {*sections}
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


def test_the_numbers_equal_those_of_duckdb(everything, report):
    """DuckDB reads the parts themselves: removals by source and language, languages, quartiles of a signal."""
    duckdb = pytest.importorskip("duckdb")
    run, database = everything.run, duckdb.connect()
    database.execute("create table found (source text, step text, reason text, language text, words double)")
    for source, documents in run.documents.items():
        for document in documents:
            at = (source, document.order)
            layers = {
                run.nodes[name].name: str(run.store.local_path(run.states[name].layers[at][0]))
                for name in run.chains[source]
                if at in run.states[name].layers
            }
            language = f"select label from read_parquet('{layers['language']}')" if "language" in layers else ""
            database.execute(
                f"""insert into found select '{source}', v.step, v."drop", {"l.label" if language else "null"}, s.words
                from read_parquet('{layers["corpus"]}') v positional join read_parquet('{layers["signals"]}') s
                {f"positional join ({language}) l" if language else ""}"""
            )
    reasons = ", ".join(f"'{reason}'" for reason in NO_DOCUMENT)
    database.execute(f"delete from found where reason in ({reasons})")

    def counted(columns, where):
        rows = database.execute(f"select {columns}, count(*) from found where {where} group by all").fetchall()
        return {tuple(map(str, row[:-1])): row[-1] for row in rows}

    sections = tables(report)
    removals = {tuple(row[:3]): int(row[3]) for row in sections["Removals"][1:]}
    assert removals == counted("step, reason, source", "reason is not null")
    by_language = {tuple(row[:3]): int(row[3]) for row in sections["Removals by language"][1:]}
    named = "coalesce(language, '(none)')"
    assert by_language == counted(f"step, reason, {named}", "reason is not null and source = 'crawl'")
    kept = {(row[0],): int(row[2]) for row in sections["Languages"][1:] if int(row[2])}
    assert kept == counted(named, "reason is null and source = 'crawl'")
    words = next(row for row in sections["Lengths"] if row[0] == "words")
    for at, where in ((2, "reason is null"), (4, "reason is not null")):
        number, quartiles = database.execute(
            f"select count(words), quantile_cont(words, [0.25, 0.5, 0.75]) from found where {where}"
        ).fetchone()
        assert words[at : at + 2] == [f"{number:,}", " / ".join(map(short_number, quartiles))]


def test_every_threshold_of_a_recipe_is_shown(project, in_this_process):
    """Own rules, cutoffs on own scores (0 counts, too), and numbers that no rule uses; small groups are named."""
    project.write_inputs(1, 30)
    steps = """
  - signals
  - stagebox.length
  - heuristics: {own: ["signals.words > 6 and 30.5 <= length.chars / 2 -> long", 'source == "x" -> other']}
  - keep_quality: {score: length.chars, min_score: 0}
"""
    project.write_recipe(steps, pattern="in/00.jsonl")
    project.run()
    text = gristmill.open(project.recipe).report()
    sections = tables(text)
    shown = {row[0]: row[1] for name in ("Lengths", "Signals and scores") for row in sections[name][1:]}
    assert shown["words"] == "long 6"
    assert shown["length.chars / 2"] == "long 30.5"
    assert shown["length.chars"] == "min_score 0"
    assert shown["digit_chars"] == ""


def test_a_small_group_is_left_out_with_a_remark():
    """Quartiles of a few documents mean nothing, but the page says how many groups are missing."""
    values = np.linspace(0, 1, 41)
    drawn = histograms.DrawnValues(
        {"Quality score edu": values}, values >= 0, ["a"] * 30 + ["b"] * 11, [""] * 41, ["en"] * 41, 1
    )
    corpus = SimpleNamespace(drawn=drawn, measures=[Measure("Quality score edu", "quality.edu")])
    section = quality(corpus, None)
    assert [row[:2] for row in section.rows] == [("edu: source a", "30"), ("edu: language en", "41")]
    assert "20 documents with a score; 1 group with fewer is left out." in section.text


def test_clusters_of_every_size_are_shown():
    """Sizes are classes like 3-4 in the metrics of a run; rows and bars are in the order of their numbers."""
    sizes = {name: size_histogram(np.array(found)) for name, found in (("b", [2000]), ("a", [2, 2, 3, 9, 4]))}
    metrics = {"clusters_by_size": sizes["b"] | sizes["a"], "chains": {"10": 1, "2": 3}}
    section = _clusters(SimpleNamespace(metrics=lambda name: [(name, metrics)]), None)
    assert [row[2:] for row in section.rows] == [
        *(("2", "2"), ("3-4", "2"), ("9-16", "1"), ("1,025-2,048", "1")),
        *(("2", "3"), ("10", "1")),
    ]


def test_the_phases_of_a_mixture_add_up():
    """Samples and tokens of all phases are the sums of the phases, although tokens are rounded means."""
    groups = [
        {"name": "a", "domain": "d", "tokens": 1001, "samples": 10, "max_epochs": 4},
        {"name": "b", "domain": "d", "tokens": 500, "samples": 7, "max_epochs": 4},
    ]
    phases = [
        {"name": name, "samples": a + b, "targets": {"a": 0.5, "b": 0.5}, "weights": {"a": a, "b": b}}
        for name, a, b in (("one", 5, 3), ("two", 7, 2))
    ]
    metrics = tally({"groups": groups, "phases": phases})
    section = _mixture(SimpleNamespace(metrics=lambda name: [(name, metrics)]), None)
    assert section.rows == [
        ("one", "d", "a", "5", "about 501", "70.1%", "0.50", ""),
        ("one", "d", "b", "3", "about 214", "29.9%", "0.43", ""),
        ("two", "d", "a", "7", "about 701", "83.1%", "0.70", ""),
        ("two", "d", "b", "2", "about 143", "16.9%", "0.29", ""),
        ("all phases", "", "a", "12", "about 1,202", "77.1%", "1.20", "about 201"),
        ("all phases", "", "b", "5", "about 357", "22.9%", "0.71", "0"),
    ]
    assert "Tokens of whole epochs are exact" in section.text


def test_rates_equal_those_of_status(everything, report, say):
    """MB/s are per second of a worker, without compilation."""
    recipe = everything.project.recipe
    stages = json.loads(say("status", recipe, "--json").out)["stages"]
    rates = {one["stage"]: one["mb_per_s"] for one in stages if one["mb_per_s"] is not None}
    shown = {row[0]: float(row[3].replace(",", "")) for row in tables(report)["Cost"][1:] if row[3]}
    assert shown == pytest.approx(rates, abs=0.06)


def test_one_is_singular(project, in_this_process):
    """Counts and verbs agree."""
    (project.folder / "in").mkdir(exist_ok=True)
    (project.folder / "in" / "00.jsonl").write_text('{"text": "one"}')
    project.write_recipe("\n  - stagebox.length\n", pattern="in/00.jsonl")
    project.run()
    text = gristmill.open(project.recipe).report()
    assert "<b>1</b>document read<" in text
    assert "Of 1 document, 1 (100.0%) is kept." in text


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


def test_every_histogram_has_its_numbers(report, everything):
    """Below each small chart is a table of its bins, as they are counted, without exponents."""
    cells = re.findall("<figure><figcaption>.*?</figure>", report, re.S)
    assert len(cells) > 20
    found = [[re.findall(">([^<>]+)</td>", row) for row in re.findall("<tr><td.*?</tr>", cell)] for cell in cells]
    assert not [one for rows in found for row in rows for one in row if not re.fullmatch(r"-?[0-9,]+(\.\d+)?", one)]
    measure = Measure("Bytes of text", "text_bytes")
    assert f"<figcaption>{measure.title}<" in cells[0]
    counts = histograms.count(measure, histograms.draw(everything.run, [measure])).counts
    expected = [(f"{kept:,}", f"{removed:,}") for kept, removed in zip(counts[KEPT], counts[REMOVED], strict=True)]
    assert [tuple(row[2:]) for row in found[0]] == [row for row in expected if row != ("0", "0")]


def test_a_large_corpus_is_sampled_deterministically(everything):
    """The sample takes every n-th document across the parts; a second read gets the same documents."""
    measure = Measure("bytes", "text_bytes")
    all_documents, sample, again = (histograms.draw(everything.run, [measure], most) for most in (10**6, 8, 8))
    assert all_documents.every == 1 < sample.every
    assert 0 < len(sample.is_kept) < len(all_documents.is_kept)
    assert (sample.values["bytes"] == again.values["bytes"]).all()


def test_another_version_is_shown_for_comparison(everything):
    """Compared with itself nothing changes: every table has each number twice, and histograms have further curves."""
    text = gristmill.open(everything.project.recipe).report(against="v1")
    sections = tables(text)
    assert sections.pop("Alarms") == []
    assert "0 changes are larger than chance" in text
    for title, rows in sections.items():
        before: list[str] = []
        heads = 0
        for row in rows:
            if row[-1].endswith(" before"):  # a section may have several tables
                heads, before = heads + 1, [name for name in row if name.endswith(" before")]
                assert [f"{name} before" for name in row[-2 * len(before) : -len(before)]] == before
            elif before:
                assert row[-len(before) :] == row[-2 * len(before) : -len(before)], title
        assert heads, title
    assert "(+0.0%)" in text
    alone = gristmill.open(everything.project.recipe).report()
    outline = f'stroke="{COLOURS[KEPT]}"'
    assert text.count(outline) > alone.count(outline)


def test_histograms_are_drawn_to_scale():
    """The largest share has the full height; bins and thresholds are placed by their values."""
    edges, counts = np.array([0.0, 1.0, 2.0, 4.0]), {KEPT: np.array([3, 1, 0])}
    histogram = histograms.Histogram(Measure("a", "a", {3.0: "most"}), edges, counts, outside=0)
    old = histograms.Histogram(histogram.measure, edges, {KEPT: np.array([0, 0, 4])}, outside=0)
    area, line, threshold = charts.histograms([histogram], {"a": old})["data"][0]["values"]
    assert area["path"] == "M0.0,80 V20.0 H60.0 V60.0 H120.0 V80.0 H240.0 V80 Z"
    assert line["path"] == "M0.0,80.0 V80.0 H60.0 V80.0 H120.0 V0.0 H240.0"
    assert threshold["path"] == "M180.0,0 V80"


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
    recipe = everything.project.recipe
    for arguments in (
        ["report", recipe, "--out", tmp_path / "a.html"],
        ["bias", recipe, "--step", "heuristics", "--html", tmp_path / "a.html"],
    ):
        output = say(*arguments)
        assert output.code == 2
        assert install_extra("report") in output.err


def test_wrong_input_is_one_message(everything, say, tmp_path):
    """This covers a missing folder and an unknown version."""
    recipe = everything.project.recipe
    for wrong in (tmp_path / "no" / "b.html", recipe, tmp_path):
        output = say("report", recipe, "--out", wrong)
        assert output.code == 2
        assert "so nothing was done" in output.err
    assert say("report", recipe, "--out", tmp_path / "a.html", "--against", "v9").code == 2


def test_ids_of_charts_are_distinct(report):
    """All charts share one page and refer to their own gradients and clips."""
    ids = re.findall(r'\bid="(.*?)"', report)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("samples", "text"), [(0, "700"), (10, "700"), (30, "700"), (15, "about 700")])
def test_tokens_of_whole_epochs_are_exact(samples, text):
    """Others are estimated, and say so: it is not stored how long each drawn sample is."""
    assert tokens_text(samples, 700, {"samples": 10, "tokens": 350}) == text
