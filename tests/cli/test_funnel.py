"""gristmill funnel: every document and every byte of text is counted exactly once."""

import itertools
import json

import pytest

from gristmill.engine.plan.graph import CORPUS
from gristmill.query.documents.documents import rows
from gristmill.query.removal.funnel import funnels
from gristmill.recipe.checks.columns import INGEST
from gristmill.stages import NO_DOCUMENT
from gristmill.stages.ingest import pages

EXTRACT = {"crawl": "web/extract", "notes": INGEST}


@pytest.fixture(scope="module")
def all_funnels(everything):
    return funnels(everything.run)


@pytest.mark.parametrize("source", ["crawl", "notes"])
def test_input_equals_dropped_plus_cut_plus_kept(all_funnels, source):
    """This holds for documents, bytes of text, and bytes that never became text."""
    funnel = all_funnels[source]
    dropped = [counts for reasons in funnel["first"].values() for counts in reasons.values()]
    for unit, cuts in (("rows", []), ("text_bytes", funnel["cut"]), ("raw_bytes", funnel["extracted"])):
        lost = sum(counts[unit] for counts in dropped) + sum(cuts[step][unit] for step in cuts)
        assert funnel["read"][unit] - lost == funnel["kept"][unit], unit
    other = sum(counts["rows"] for counts in funnel["no_documents"].values())
    assert funnel["records"] == funnel["read"]["rows"] + other
    assert funnel["kept"]["rows"] > 5
    assert funnel["cut"].keys() >= {"all/lines", "all/line_dedup"}


def test_the_corpus_has_every_kind_of_loss(all_funnels):
    """Otherwise the sums above would prove little."""
    crawl = all_funnels["crawl"]
    assert crawl["no_documents"].keys() == {"request_record", "warcinfo_record", "robots_txt"}
    assert crawl["first"].keys() >= {INGEST, "web/gate", "web/robots", "web/extract", "web/keep_language"}
    assert crawl["first"]["web/gate"]["blocked_domain"]["raw_bytes"] > 0
    assert crawl["first"]["web/gate"]["blocked_domain"]["text_bytes"] == 0
    assert crawl["first"]["web/keep_language"]["other_language"]["text_bytes"] > 0
    assert crawl["first"]["web/keep_language"]["other_language"]["raw_bytes"] == 0
    assert crawl["first"]["all/exact_dedup"]["duplicate_text"]["rows"] == 1
    assert "all/substring_dedup" in crawl["cut"]
    assert all_funnels["notes"]["read"]["raw_bytes"] == 0
    assert all_funnels["notes"]["first"]["text/longer"]["too_short"]["text_bytes"] == len("too short")


@pytest.mark.parametrize("source", [pytest.param("crawl", marks=pytest.mark.slow), "notes"])
def test_byte_counts_equal_a_walk_over_all_texts(everything, all_funnels, source):
    """The oracle visits every document step by step and measures its text."""
    view = everything.run
    layers = [step for step in view.chains[source] if view.nodes[step].has_layers and view.nodes[step].name != CORPUS]
    steps = [INGEST, *layers]
    after = {step: list(rows(view, step, None, None, [source])) for step in steps}
    dropped, cut, read, kept = {}, {}, 0, 0
    for number, row in enumerate(after[steps[-1]]):
        if row.reason in NO_DOCUMENT:
            continue
        end = steps.index(row.step) if row.step else len(steps)
        begin = steps.index(EXTRACT[source])
        texts = {step: len((after[step][number].text or "").encode()) for step in steps[begin : max(end, begin + 1)]}
        has_text = source == "notes" or end > begin
        read += texts[steps[begin]] if has_text else 0
        for before, step_after in itertools.pairwise(texts):
            if texts[before] != texts[step_after]:
                cut[step_after] = cut.get(step_after, 0) + texts[before] - texts[step_after]
        last = list(texts.values())[-1] if has_text else 0
        if row.step is None:
            kept += last
        else:
            dropped[row.step, row.reason] = dropped.get((row.step, row.reason), 0) + last
    funnel = all_funnels[source]
    assert funnel["read"]["text_bytes"] == read
    assert funnel["kept"]["text_bytes"] == kept
    assert {step: counts["text_bytes"] for step, counts in funnel["cut"].items()} == cut
    assert {
        (step, reason): counts["text_bytes"]
        for step, reasons in funnel["first"].items()
        for reason, counts in reasons.items()
    } == dropped


def test_the_table_and_json_agree(everything, copy_of, all_funnels, say):
    """A verbose run ends with the same table."""
    recipe = everything.project.recipe
    result = say("funnel", recipe)
    assert result.code == 0, result.err
    lines = [line.split() for line in result.out.splitlines()]
    crawl = all_funnels["crawl"]
    assert ["crawl", "read", f"{crawl['read']['rows']}", "100.0%"] in [line[:4] for line in lines]
    assert ["all/line_dedup", "cut", "from", f"{crawl['cut']['all/line_dedup']['rows']}"] in [
        line[:4] for line in lines
    ]
    order = [line[0] for line in lines if line and "/" in line[0]]
    order = order[: order.index("all/substring_dedup")]
    chain = everything.run.chains["crawl"]
    assert [chain.index(step) for step in order] == sorted(chain.index(step) for step in order)
    assert f"{crawl['no_documents']['request_record']['rows']} request_record" in result.out
    assert json.loads(say("funnel", recipe, "--json").out)["funnel"] == json.loads(json.dumps(all_funnels))
    run_output = say("run", copy_of(everything).recipe, "--verbose").out
    assert result.out.strip() in run_output


@pytest.mark.slow
def test_a_route_that_ends_before_extraction_has_no_text_yet(everything, say, tmp_path):
    """With `--until`, markup is never counted as text."""
    project = everything.project
    store = tmp_path / "until"
    crawl = funnels(project.run(until="gate", store=str(store)))["crawl"]
    assert crawl["read"]["text_bytes"] == crawl["kept"]["text_bytes"] == 0
    lost = sum(counts["raw_bytes"] for reasons in crawl["first"].values() for counts in reasons.values())
    assert crawl["read"]["raw_bytes"] - lost == crawl["kept"]["raw_bytes"] > 0
    assert "up to gate" in say("funnel", f"{store}@everything").err


def test_the_archive_reader_and_the_funnel_agree_on_non_documents():
    """A new record type must be listed in both."""
    assert {f"{kind}_record" for kind in (*pages._OTHER_TYPES, "filedesc", "unknown")} | {"robots_txt"} == NO_DOCUMENT


def test_one_source_can_be_shown_alone(everything, say):
    """--source gives the same counts; an unknown name gets a suggestion."""
    all_sources, one_source = (
        json.loads(say("funnel", everything.project.recipe, "--json", *options).out)
        for options in ((), ("--source", "notes"))
    )
    assert one_source["funnel"] == {"notes": all_sources["funnel"]["notes"]}
    assert "crawl" in say("funnel", everything.project.recipe).out
    assert "crawl" not in say("funnel", everything.project.recipe, "--source", "notes").out
    output = say("funnel", everything.project.recipe, "--source", "note")
    assert (output.code, "Did you mean notes?" in output.err) == (2, True)
