"""`inspect`, `status` and `funnel` report the same steps, documents and counts for a corpus."""

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
def inspect_json(routes, say):
    def run_inspect(*arguments):
        result = say("inspect", routes.project.recipe, *arguments, "-n", 1000, "--json")
        assert result.code == 0, result.err
        return [json.loads(line) for line in result.out.splitlines()]

    return run_inspect


def first_drops(run):
    """Count documents by step and reason, as the funnels do."""
    totals = Counter()
    for funnel in funnels(run).values():
        for step, reasons in funnel["first"].items():
            totals.update({(step, reason): counts["rows"] for reason, counts in reasons.items()})
    return totals


def verdicts(rows):
    return Counter((row["verdict"]["step"], row["verdict"]["reason"]) for row in rows)


@pytest.mark.parametrize("stage", ["heuristics", "text/heuristics", "keep_language", "ingest", "crawl/ingest"])
def test_dropped_with_a_stage_means_dropped_by_that_stage(routes, inspect_json, stage):
    """This holds for every route that has the step, or for the named route only."""
    dropped = verdicts(inspect_json("--stage", stage, "--dropped"))
    expected = first_drops(routes.run)
    if stage == "crawl/ingest":
        reasons = funnels(routes.run)["crawl"]["first"]["ingest"]
        expected = {("ingest", reason): counts["rows"] for reason, counts in reasons.items()}
    names = (stage, "ingest") if stage == "crawl/ingest" else (stage,)
    assert dropped == {key: rows for key, rows in expected.items() if {key[0], key[0].split("/")[-1]} & {*names}}
    assert dropped


def test_kept_and_dropped_documents_add_up(routes, inspect_json):
    """Sources that do not pass the step are left out."""
    assert verdicts(inspect_json("--dropped")) == first_drops(routes.run)
    kept = inspect_json("--stage", "extract", "--kept")
    dropped = first_drops(routes.run)
    before = sum(c["rows"] for c in funnels(routes.run)["crawl"]["first"]["ingest"].values())
    before += sum(n for (step, _), n in dropped.items() if step == "web/extract")
    assert len(kept) == funnels(routes.run)["crawl"]["read"]["rows"] - before
    assert {row["source"] for row in kept} == {"crawl"}


@pytest.mark.slow
def test_records_that_are_not_documents_are_shown_on_request(routes, inspect_json, say):
    """--records, --reason and --id show them."""
    read = sum(funnel["read"]["rows"] for funnel in funnels(routes.run).values())
    assert len(inspect_json()) == read
    all_records = inspect_json("--records")
    assert len(all_records) == sum(funnel["records"] for funnel in funnels(routes.run).values()) > read
    requests = inspect_json("--reason", "request_record")
    assert {row["verdict"]["reason"] for row in requests} == {"request_record"} <= NO_DOCUMENT
    assert inspect_json("--id", requests[0]["doc_id"]) == requests[:1]
    nothing = say("inspect", routes.project.recipe, "--url", "mill.example/robots.txt")
    assert nothing.code == 0
    assert nothing.err == "No matching documents. Records that are not documents were left out: --records shows them.\n"
    for options in (("--url", "nowhere.example"), ("--stage", "web/extract", "--dropped", "--source", "crawl")):
        assert say("inspect", routes.project.recipe, *options, "--skip", 9).err == (
            "No matching documents after the first 9.\n"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--source", "crwl"), "Did you mean crawl? Sources: crawl, notes, lists."),
        (("--reason", "too_few_wrods"), "Did you mean too_few_words? Reasons here:"),
        (("--stage", "heuristcs"), "Did you mean heuristics?"),
        (("--stage", "extract", "--source", "notes"), "--source notes does not pass --stage extract"),
        (("--kept", "--reason", "too_few_words"), "Leave one of them out"),
    ],
)
def test_a_typo_is_reported(routes, say, arguments, message):
    """The exit code is 2, and the message suggests the nearest name."""
    output = say("inspect", routes.project.recipe, *arguments)
    assert output.code == 2
    assert message in output.err


def test_a_reason_without_documents_is_not_an_error(routes, say):
    """The command says that no documents match, and which steps have the reason."""
    output = say("inspect", routes.project.recipe, "--reason", "too_few_sentences")
    assert output.code == 0
    assert "No matching documents." in output.err
    output = say("inspect", routes.project.recipe, "--stage", "extract", "--reason", "too_few_words")
    assert (output.code, output.err) == (
        0,
        "No matching documents. These steps dropped some for it: text/heuristics.\n",
    )


def test_status_counts_equal_the_funnel(routes, say):
    """Each document counts as dropped by the first step that dropped it; the next step gets the rest."""
    result = json.loads(say("status", routes.project.recipe, "--json").out)["stages"]
    stages = {stage["stage"]: (stage["documents"], stage["documents_dropped"]) for stage in result}
    by_step = Counter()
    for (step, _), rows in first_drops(routes.run).items():
        by_step[step] += rows
    all_funnels = funnels(routes.run)
    for source, funnel in all_funnels.items():
        reader = sum(counts["rows"] for counts in funnel["first"].get("ingest", {}).values())
        assert stages[f"{source}/ingest"] == (funnel["read"]["rows"], reader)
        assert stages[f"{source}/corpus"] == (funnel["kept"]["rows"], 0)
    for step in ("web/extract", "web/keep_language", "text/heuristics", "all/exact_dedup"):
        assert stages[step][1] == by_step[step]
    assert stages["web/language"][0] == stages["web/extract"][0] - stages["web/extract"][1]
    assert stages["all/exact_dedup"][0] - by_step["all/exact_dedup"] == sum(
        funnel_of_source["kept"]["rows"] for funnel_of_source in all_funnels.values()
    )
    shown = say("status", routes.project.recipe).out
    assert shown.splitlines()[0].split()[:4] == ["stage", "tasks", "documents", "dropped"]


def test_status_of_an_unfinished_run_counts_drops_so_far(routes, copy_of, say, edit):
    """It counts documents, not records."""
    recipe = copy_of(routes).recipe
    edit(recipe, "exact_dedup: {normalise: none}", "exact_dedup: {normalise: words}")
    result = json.loads(say("status", recipe, "--json").out)["stages"]
    stages = {stage["stage"]: (stage["documents"], stage["documents_dropped"]) for stage in result}
    funnel = funnels(routes.run)["crawl"]
    reader = sum(counts["rows"] for counts in funnel["first"]["ingest"].values())
    assert stages["crawl/ingest"] == (funnel["read"]["rows"], reader)
    heuristics = sum(counts["rows"] for counts in funnels(routes.run)["notes"]["first"]["text/heuristics"].values())
    assert stages["text/heuristics"] == (None, heuristics)


def test_the_language_table_names_its_sources(routes, say):
    """It also names the sources without a language step."""
    shown = say("funnel", routes.project.recipe).out
    title = "Languages of the documents of crawl, notes. Not measured, because they have no language step: lists."
    assert title in shown


def test_a_plan_explains_a_shared_step_once_and_ends_with_the_disk_space(routes, copy_of, say, edit):
    """The last line of a plan shows what the run will cost."""
    finished = say("plan", routes.project.recipe).out
    assert finished.count("half of the pairs") == 1
    assert "web/near_dedup, text/near_dedup" in finished
    assert "Nothing to do: everything is in the store, " in finished
    project = copy_of(routes)
    project.run()  # otherwise the plan samples the inputs, which are in a new folder, and ends with that estimate
    edit(project.recipe, "exact_dedup: {normalise: none}", "exact_dedup: {normalise: words}")
    pending = say("plan", project.recipe).out
    assert pending.strip().splitlines()[-1].startswith("The run will add less than ")


def test_bytes_per_token_are_rounded_once():
    """`tokenizer train` and `compare` show the same digits, because the stored number is not rounded before display."""
    fertility = Fertility(documents=1, bytes=300_047, tokens=100_000)
    assert f"{fertility.plain()['bytes_per_token']:.3f}" == f"{fertility.bytes_per_token:.3f}" == "3.000"


def test_status_shows_what_every_stage_read_and_stored(everything, say):
    """Stages that read no content (dedup, shards, mix) say so; the stored size is the size of a stage's files."""
    names = (everything.project.recipe, f"{everything.project.store}@v1")
    result = [json.loads(say("status", name, "--json").out)["stages"] for name in names]
    stored = {stage["stage"]: stage["stored_bytes"] for stage in result[0]}
    assert stored == {stage["stage"]: stage["stored_bytes"] for stage in result[1]}
    for node_id, state in everything.run.states.items():
        records = [everything.run.store.read_json(f"tasks/{key}.json") for key in state.tasks]
        all_parts = (part_from_json(part) for record in records for part in record["parts"])
        parts = {part.hash: part for part in with_verdicts(all_parts)}
        assert stored[node_id] == sum(
            Path(everything.run.store.part_path(part)).stat().st_size for part in parts.values()
        )
    by_stage = {stage["stage"]: stage for stage in result[0]}
    assert all(stored.values())
    for name in ("all/exact_dedup", "all/near_dedup", "all/shards", "all/mix"):
        assert (by_stage[name]["bytes"], by_stage[name]["mb_per_s"]) == (None, None)
    assert by_stage["all/signals"]["bytes"] > 0
    shown = say("status", everything.project.recipe).out
    assert " 0 B" not in shown
    assert "read: - for stages that read no document content" in shown
