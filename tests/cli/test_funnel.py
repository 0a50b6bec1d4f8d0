"""gristmill funnel: every document and every byte of text is accounted for, once."""

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
def found(everything):
    return funnels(everything.run)


@pytest.mark.parametrize("source", ["crawl", "notes"])
def test_what_came_in_is_what_was_taken_and_cut_and_is_left(found, source):
    """In documents, in bytes of text, and in bytes that were never text."""
    funnel = found[source]
    taken = [counts for reasons in funnel["first"].values() for counts in reasons.values()]
    for unit, gone in (("rows", []), ("text_bytes", funnel["cut"]), ("raw_bytes", funnel["extracted"])):
        lost = sum(counts[unit] for counts in taken) + sum(gone[step][unit] for step in gone)
        assert funnel["read"][unit] - lost == funnel["kept"][unit], unit
    other = sum(counts["rows"] for counts in funnel["no_documents"].values())
    assert funnel["records"] == funnel["read"]["rows"] + other
    assert funnel["kept"]["rows"] > 5
    assert funnel["cut"].keys() >= {"all/lines", "all/line_dedup"}


def test_every_kind_of_loss_is_there(found):
    """Or the sums above would say little."""
    crawl = found["crawl"]
    assert crawl["no_documents"].keys() == {"request_record", "warcinfo_record", "robots_txt"}
    assert crawl["first"].keys() >= {INGEST, "web/gate", "web/robots", "web/extract", "web/keep_language"}
    assert crawl["first"]["web/gate"]["blocked_domain"]["raw_bytes"] > 0
    assert crawl["first"]["web/gate"]["blocked_domain"]["text_bytes"] == 0
    assert crawl["first"]["web/keep_language"]["other_language"]["text_bytes"] > 0
    assert crawl["first"]["web/keep_language"]["other_language"]["raw_bytes"] == 0
    assert crawl["first"]["all/exact_dedup"]["duplicate_text"]["rows"] == 1
    assert "all/substring_dedup" in crawl["cut"]
    assert found["notes"]["read"]["raw_bytes"] == 0
    assert found["notes"]["first"]["text/longer"]["too_short"]["text_bytes"] == len("too short")


@pytest.mark.parametrize("source", [pytest.param("crawl", marks=pytest.mark.slow), "notes"])
def test_bytes_are_those_of_the_texts_themselves(everything, found, source):
    """Against a walk over all documents, step by step, with their texts in hand."""
    view = everything.run
    layers = [step for step in view.chains[source] if view.nodes[step].has_layers and view.nodes[step].name != CORPUS]
    steps = [INGEST, *layers]
    after = {step: list(rows(view, step, None, None, [source])) for step in steps}
    first, cut, read, kept = {}, {}, 0, 0
    for number, row in enumerate(after[steps[-1]]):
        if row.reason in NO_DOCUMENT:
            continue
        end = steps.index(row.step) if row.step else len(steps)
        begin = steps.index(EXTRACT[source])
        texts = {step: len((after[step][number].text or "").encode()) for step in steps[begin : max(end, begin + 1)]}
        has_text = source == "notes" or end > begin
        read += texts[steps[begin]] if has_text else 0
        for one, other in itertools.pairwise(texts):
            if texts[one] != texts[other]:
                cut[other] = cut.get(other, 0) + texts[one] - texts[other]
        last = list(texts.values())[-1] if has_text else 0
        if row.step is None:
            kept += last
        else:
            first[row.step, row.reason] = first.get((row.step, row.reason), 0) + last
    funnel = found[source]
    assert funnel["read"]["text_bytes"] == read
    assert funnel["kept"]["text_bytes"] == kept
    assert {step: counts["text_bytes"] for step, counts in funnel["cut"].items()} == cut
    assert {
        (step, reason): counts["text_bytes"]
        for step, some in funnel["first"].items()
        for reason, counts in some.items()
    } == first


def test_the_table_and_json_say_the_same(everything, copy_of, found, say):
    """A run ends with the same table."""
    recipe = everything.project.recipe
    result = say("funnel", recipe)
    assert result.code == 0, result.err
    lines = [line.split() for line in result.out.splitlines()]
    crawl = found["crawl"]
    assert ["crawl", "read", f"{crawl['read']['rows']}", "100.0%"] in [line[:4] for line in lines]
    assert ["all/line_dedup", "cut", "from", f"{crawl['cut']['all/line_dedup']['rows']}"] in [
        line[:4] for line in lines
    ]
    order = [line[0] for line in lines if line and "/" in line[0]]
    order = order[: order.index("all/substring_dedup")]
    chain = everything.run.chains["crawl"]
    assert [chain.index(step) for step in order] == sorted(chain.index(step) for step in order)
    assert f"{crawl['no_documents']['request_record']['rows']} request_record" in result.out
    assert json.loads(say("funnel", recipe, "--json").out)["funnel"] == json.loads(json.dumps(found))
    ended = say("run", copy_of(everything).recipe, "--verbose").out
    assert result.out.strip() in ended


@pytest.mark.slow
def test_a_route_that_ends_before_extraction_has_no_text_yet(everything, say, tmp_path):
    """`--until`: markup is never counted as text."""
    project = everything.project
    store = tmp_path / "until"
    crawl = funnels(project.run(until="gate", store=str(store)))["crawl"]
    assert crawl["read"]["text_bytes"] == crawl["kept"]["text_bytes"] == 0
    lost = sum(counts["raw_bytes"] for some in crawl["first"].values() for counts in some.values())
    assert crawl["read"]["raw_bytes"] - lost == crawl["kept"]["raw_bytes"] > 0
    assert "up to gate" in say("funnel", f"{store}@everything").err


def test_a_reader_of_archives_and_the_funnel_agree_on_what_is_no_document():
    """A new type of record is listed in both."""
    assert {f"{kind}_record" for kind in (*pages._OTHER_TYPES, "filedesc", "unknown")} | {"robots_txt"} == NO_DOCUMENT


def test_one_source_can_be_shown_alone(everything, say):
    """With the same counts; a name that is not there has a suggestion."""
    whole, one = (
        json.loads(say("funnel", everything.project.recipe, "--json", *more).out)
        for more in ((), ("--source", "notes"))
    )
    assert one["funnel"] == {"notes": whole["funnel"]["notes"]}
    assert "crawl" in say("funnel", everything.project.recipe).out
    assert "crawl" not in say("funnel", everything.project.recipe, "--source", "notes").out
    said = say("funnel", everything.project.recipe, "--source", "note")
    assert (said.code, "Did you mean notes?" in said.err) == (2, True)
