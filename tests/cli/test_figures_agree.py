"""What `inspect`, `status` and `funnel` say of a corpus: the same steps, the same documents, the same figures."""

import json
from collections import Counter
from pathlib import Path

import pytest

from gristmill.cli.tokenizer.open import Fertility
from gristmill.engine.work.task import part_from_json
from gristmill.query.removal.funnel import funnels
from gristmill.stages import NO_DOCUMENT
from gristmill.store.store import with_verdicts


@pytest.fixture
def inspected(routes, say):
    def inspect(*arguments):
        result = say("inspect", routes.project.recipe, *arguments, "-n", 1000, "--json")
        assert result.code == 0, result.err
        return [json.loads(line) for line in result.out.splitlines()]

    return inspect


def first(run):
    """Documents by step and reason, as the funnels count them."""
    counted = Counter()
    for funnel in funnels(run).values():
        for step, reasons in funnel["first"].items():
            counted.update({(step, reason): counts["rows"] for reason, counts in reasons.items()})
    return counted


def verdicts(rows):
    return Counter((row["verdict"]["step"], row["verdict"]["reason"]) for row in rows)


@pytest.mark.parametrize("stage", ["heuristics", "text/heuristics", "keep_language", "ingest", "crawl/ingest"])
def test_dropped_by_a_step_means_by_that_step(routes, inspected, stage):
    """In every route that has it, or in the one that is named."""
    found = verdicts(inspected("--stage", stage, "--dropped"))
    wanted = first(routes.run)
    if stage == "crawl/ingest":
        reasons = funnels(routes.run)["crawl"]["first"]["ingest"]
        wanted = {("ingest", reason): counts["rows"] for reason, counts in reasons.items()}
    names = (stage, "ingest") if stage == "crawl/ingest" else (stage,)
    assert found == {key: rows for key, rows in wanted.items() if {key[0], key[0].split("/")[-1]} & {*names}}
    assert found


def test_kept_up_to_a_step_and_dropped_at_all_add_up(routes, inspected):
    """Sources that do not pass the step are not there."""
    assert verdicts(inspected("--dropped")) == first(routes.run)
    kept = inspected("--stage", "extract", "--kept")
    gone = first(routes.run)
    before = sum(c["rows"] for c in funnels(routes.run)["crawl"]["first"]["ingest"].values())
    before += sum(n for (step, _), n in gone.items() if step == "web/extract")
    assert len(kept) == funnels(routes.run)["crawl"]["read"]["rows"] - before
    assert {row["source"] for row in kept} == {"crawl"}


@pytest.mark.slow
def test_records_that_are_no_documents_are_shown_when_asked_for(routes, inspected, say):
    """By --records, by their reason, by their id."""
    read = sum(funnel["read"]["rows"] for funnel in funnels(routes.run).values())
    assert len(inspected()) == read
    every = inspected("--records")
    assert len(every) == sum(funnel["records"] for funnel in funnels(routes.run).values()) > read
    requests = inspected("--reason", "request_record")
    assert {row["verdict"]["reason"] for row in requests} == {"request_record"} <= NO_DOCUMENT
    assert inspected("--id", requests[0]["doc_id"]) == requests[:1]
    nothing = say("inspect", routes.project.recipe, "--url", "mill.example/robots.txt")
    assert nothing.code == 0
    assert nothing.err == "No matching documents. Records that are not documents were left out: --records shows them.\n"
    for question in (("--url", "nowhere.example"), ("--stage", "web/extract", "--dropped", "--source", "crawl")):
        assert say("inspect", routes.project.recipe, *question, "--skip", 9).err == (
            "No matching documents after the first 9.\n"
        )


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (("--source", "crwl"), "Did you mean crawl? Sources: crawl, notes, lists."),
        (("--reason", "too_few_wrods"), "Did you mean too_few_words? Reasons here:"),
        (("--stage", "heuristcs"), "Did you mean heuristics?"),
        (("--stage", "extract", "--reason", "too_few_words"), "These did: text/heuristics"),
        (("--stage", "extract", "--source", "notes"), "--source notes does not pass --stage extract"),
        (("--kept", "--reason", "too_few_words"), "Leave one of them out"),
    ],
)
def test_a_slip_of_the_pen_is_told(routes, say, arguments, result):
    """Exit code 2, the nearest name."""
    said = say("inspect", routes.project.recipe, *arguments)
    assert said.code == 2
    assert result in said.err


def test_a_rule_that_took_nothing_is_no_slip_of_the_pen(routes, say):
    """Nothing is found, and that is said."""
    said = say("inspect", routes.project.recipe, "--reason", "too_few_sentences")
    assert said.code == 0
    assert "No matching documents." in said.err


def test_status_counts_as_the_funnel_does(routes, say):
    """Documents, each dropped by the first step that did; what is left of them comes to the next."""
    result = json.loads(say("status", routes.project.recipe, "--json").out)["stages"]
    stages = {stage["stage"]: (stage["documents"], stage["documents_dropped"]) for stage in result}
    by_step = Counter()
    for (step, _), rows in first(routes.run).items():
        by_step[step] += rows
    found = funnels(routes.run)
    for source, funnel in found.items():
        reader = sum(counts["rows"] for counts in funnel["first"].get("ingest", {}).values())
        assert stages[f"{source}/ingest"] == (funnel["read"]["rows"], reader)
        assert stages[f"{source}/corpus"] == (funnel["kept"]["rows"], 0)
    for step in ("web/extract", "web/keep_language", "text/heuristics", "all/exact_dedup"):
        assert stages[step][1] == by_step[step]
    assert stages["web/language"][0] == stages["web/extract"][0] - stages["web/extract"][1]
    assert stages["all/exact_dedup"][0] - by_step["all/exact_dedup"] == sum(f["kept"]["rows"] for f in found.values())
    shown = say("status", routes.project.recipe).out
    assert shown.splitlines()[0].split()[:4] == ["stage", "tasks", "documents", "dropped"]


def test_before_the_end_status_counts_what_steps_have_dropped_so_far(routes, copy_of, say, edit):
    """Documents too, not records."""
    recipe = copy_of(routes).recipe
    edit(recipe, "exact_dedup: {normalise: none}", "exact_dedup: {normalise: words}")
    result = json.loads(say("status", recipe, "--json").out)["stages"]
    stages = {stage["stage"]: (stage["documents"], stage["documents_dropped"]) for stage in result}
    funnel = funnels(routes.run)["crawl"]
    reader = sum(counts["rows"] for counts in funnel["first"]["ingest"].values())
    assert stages["crawl/ingest"] == (funnel["read"]["rows"], reader)
    heuristics = sum(counts["rows"] for counts in funnels(routes.run)["notes"]["first"]["text/heuristics"].values())
    assert stages["text/heuristics"] == (None, heuristics)


def test_the_languages_say_of_which_sources_they_are(routes, say):
    """And which sources have none."""
    shown = say("funnel", routes.project.recipe).out
    result = "Languages of the documents of crawl, notes. Not measured, because they have no language step: lists."
    assert result in shown


def test_a_plan_explains_a_step_of_two_routes_once_and_ends_with_the_room_it_needs(routes, copy_of, say, edit):
    """Whoever looks at the end of it sees what the run will cost."""
    done = say("plan", routes.project.recipe).out
    assert done.count("half of the pairs") == 1
    assert "web/near_dedup, text/near_dedup" in done
    assert "Nothing to do: everything is in the store, " in done
    project = copy_of(routes)
    project.run()  # without it a plan reads the beginning of inputs in a new place, and ends with what it found there
    edit(project.recipe, "exact_dedup: {normalise: none}", "exact_dedup: {normalise: words}")
    to_do = say("plan", project.recipe).out
    assert to_do.strip().splitlines()[-1].startswith("The run will add about ")


def test_bytes_per_token_are_rounded_once():
    """`tokenizer train` and `compare` show the same digits: a number that was rounded to four is not one for three."""
    found = Fertility(documents=1, bytes=300_047, tokens=100_000)
    assert f"{found.plain()['bytes_per_token']:.3f}" == f"{found.bytes_per_token:.3f}" == "3.000"


def test_status_says_what_every_stage_read_and_holds(everything, say):
    """Stages that read no content (dedup, shards, mix) say so; what a stage stored are its files."""
    names = (everything.project.recipe, f"{everything.project.store}@v1")
    result = [json.loads(say("status", name, "--json").out)["stages"] for name in names]
    held = {one["stage"]: one["stored_bytes"] for one in result[0]}
    assert held == {one["stage"]: one["stored_bytes"] for one in result[1]}
    for node_id, made in everything.run.states.items():
        records = [everything.run.store.read_json(f"tasks/{key}.json") for key in made.tasks]
        made_parts = (part_from_json(part) for record in records for part in record["parts"])
        parts = {part.hash: part for part in with_verdicts(made_parts)}
        assert held[node_id] == sum(
            Path(everything.run.store.part_path(part)).stat().st_size for part in parts.values()
        )
    by_stage = {one["stage"]: one for one in result[0]}
    assert all(held.values())
    for name in ("all/exact_dedup", "all/near_dedup", "all/shards", "all/mix"):
        assert (by_stage[name]["bytes"], by_stage[name]["mb_per_s"]) == (None, None)
    assert by_stage["all/signals"]["bytes"] > 0
    shown = say("status", everything.project.recipe).out
    assert " 0 B" not in shown
    assert "read: - for stages that read no document content" in shown
