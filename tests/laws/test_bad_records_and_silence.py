"""Laws 6 and 7: a bad record never stops a run and never disappears; nothing is skipped silently."""

import gzip
import json
import os
import tarfile
import zipfile
from datetime import UTC, datetime

import pytest

from demo.warc import Response, write
from gristmill.cli.main import run_command
from gristmill.engine.mill import find_warnings
from gristmill.errors import UserError
from gristmill.query.removal.funnel import funnels
from gristmill.query.sizing.plan import make_plan
from gristmill.recipe.load import load


def test_rows_in_are_rows_kept_plus_rows_dropped_with_a_reason(project):
    """Every record of every input is accounted for."""
    funnel = funnels(project.run())["notes"]
    dropped = sum(count["rows"] for reasons in funnel["first"].values() for count in reasons.values())
    lines = sum(path.read_text().count("\n") for path in (project.folder / "in").iterdir())
    assert funnel["read"]["rows"] == lines == funnel["kept"]["rows"] + dropped
    assert funnel["first"]["ingest"]["invalid_json"]["rows"] == 4


def test_a_misspelled_path_gets_a_suggestion(project, edit):
    """The error suggests the file with a similar name, both for an input path and for the recipe itself."""
    edit(project.recipe, "in/*.jsonl", "in/00.json")
    with pytest.raises(UserError, match=r"in/00\.json matches no file.* Did you mean .*in/00\.jsonl\?"):
        project.run()
    with pytest.raises(UserError, match=r"recipe\.yml: there is no such file\. Did you mean .*recipe\.yaml\?"):
        load(project.folder / "recipe.yml")


def test_files_in_another_format_are_reported_as_such(project, edit):
    """The files exist, so the message blames the format and not the path."""
    edit(project.recipe, "format: jsonl", "format: text")
    with pytest.raises(UserError, match=r"\.jsonl matches 4 files .*skips all of them.*suggest `format: jsonl`"):
        project.run()
    for number in range(4):
        (project.folder / "in" / f"{number:02}.jsonl").rename(project.folder / "in" / f"{number:02}.mill")
    edit(project.recipe, "in/*.jsonl", "in/*.mill")
    with pytest.raises(UserError, match=r"\.mill matches 4 files .*skips all of them.*`suffixes`"):
        project.run()


def test_a_folder_of_archives_and_an_empty_folder_are_named_as_such(project, edit):
    """The fix is to name the archives, or to add files; the path is right."""
    folder = project.folder / "there"
    folder.mkdir()
    edit(project.recipe, "in/*.jsonl", "there/")
    with pytest.raises(UserError, match=r"matches no file.*The folder has no files: add some"):
        project.run()
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(project.recipe, "a.txt")
    with pytest.raises(UserError, match=r"Name it in `paths`, as in `\*\.tar\.gz`"):
        project.run()
    edit(project.recipe, "format: jsonl", "format: text")
    with pytest.raises(UserError, match=r"opens none of the archives in it: name them, as in `\*\.tar\.gz`"):
        project.run()


def test_a_pattern_that_matches_nothing_is_an_error_before_any_work(project, edit):
    """The message names the pattern and its line; the store stays empty."""
    edit(project.recipe, "in/*.jsonl", "nowhere/*.jsonl")
    with pytest.raises(UserError, match=r"recipe\.yaml:6: sources\.notes: .*nowhere/\*\.jsonl matches no file"):
        project.run()
    assert not list(project.store.glob("tasks/*"))
    edit(project.recipe, "paths: ['nowhere/*.jsonl']", "paths: [in/00.jsonl,\n\n    'nowhere/*.jsonl']")
    with pytest.raises(UserError, match=r"recipe\.yaml:8: sources\.notes: .*nowhere/\*\.jsonl matches no file"):
        project.run()


def test_two_files_with_the_same_name_are_rejected(project, edit):
    """Their documents would have the same ids."""
    (project.folder / "in2").mkdir()
    (project.folder / "in2" / "00.jsonl").write_text("{}\n")
    edit(project.recipe, "['in/*.jsonl']", "['in/*.jsonl', 'in2/*.jsonl']")
    with pytest.raises(UserError, match=r"both called 00\.jsonl"):
        project.run()


def test_a_snapshot_pattern_that_does_not_match_is_an_error(project, edit):
    """Every per-snapshot step would silently skip a file without a snapshot."""
    edit(project.recipe, "part_bytes", 'snapshot: "crawl-([0-9]+)/", part_bytes')
    with pytest.raises(UserError, match="does not match"):
        project.run()


def test_an_empty_corpus_is_a_warning_and_an_error_under_strict(project, edit):
    """If no document survives, the run warns, or exits with code 2 under `strict: true`."""
    edit(project.recipe, "chars: 12", "chars: 1000000")
    assert "notes/corpus: no document survived" in find_warnings(project.run())


def test_a_store_inside_the_inputs_is_not_read(project, edit):
    """The folder of a source may contain the store: its parts are not inputs."""
    edit(project.recipe, "in/*.jsonl", ".")
    edit(project.recipe, "format: jsonl", "format: text")
    project.recipe.write_text(project.recipe.read_text().split("steps:")[0] + "steps: []\n")
    (project.folder / "a.txt").write_text("some words")
    first = project.run()
    second = project.run()
    assert project.executed(second) == {}
    assert [file.name for file in second.inputs["notes"].files.values()] == ["a.txt"]
    assert first.inputs["notes"].content == second.inputs["notes"].content


def test_documents_keep_their_ids_when_the_data_moves(project):
    """An id comes from the source and the path below the pattern's fixed part."""
    one = project.run(store=str(project.folder / "one"))
    (project.folder / "deep").mkdir()
    (project.folder / "in").rename(project.folder / "deep" / "in")
    project.write_recipe(pattern="deep/in/*.jsonl")
    two = project.run(store=str(project.folder / "two"))
    assert [d.rows_hash for d in one.documents["notes"]] == [d.rows_hash for d in two.documents["notes"]]


def test_a_file_that_changes_while_it_is_read_is_not_stored(project, monkeypatch):
    """The bytes that are hashed must be the bytes that are read."""
    from gristmill.engine.plan import inputs

    real = inputs.find_inputs

    async def then_change(*arguments):
        found = await real(*arguments)
        path = project.folder / "in" / "00.jsonl"
        path.write_text(json.dumps({"text": "changed in the meantime"}) + "\n")
        return found

    monkeypatch.setattr("gristmill.engine.schedule.find_sources.find_inputs", then_change)
    with pytest.raises(UserError, match="changed since it was hashed"):
        project.run()


def test_an_unreadable_file_is_reported_as_a_file(project):
    """One row represents the file, and a share of the rows would not show how much was lost."""
    project.write_recipe("  - stagebox.length\n", pattern="in/*")
    (project.folder / "in" / "odd.jsonl").write_text("a,b\n" * 50)
    whole = gzip.compress((project.folder / "in" / "00.jsonl").read_bytes())
    (project.folder / "in" / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (warning,) = find_warnings(project.run())
    assert "not_jsonl 1, truncated_gzip 1" in warning
    assert "it is unknown how many documents they had" in warning


def test_a_warning_names_the_sources_that_it_is_about(project):
    """A warning about one route names its sources; a warning about a step of all sources does not."""
    (project.folder / "in" / "de.jsonl").write_text('{"text": "short"}\n' * 3)
    project.recipe.write_text(
        "recipe: routes\nstore: ./store\nsources:\n"
        "  crawl: {kind: web, read: {format: jsonl, paths: [in/00.jsonl]}}\n"
        "  notes: {kind: text, read: {format: jsonl, paths: [in/de.jsonl]}}\n"
        "steps:\n  web: [url_dedup]\n  all: [{exact_dedup: {scope: global}}]\n"
    )
    warnings = [line.partition(": ")[0] for line in find_warnings(project.run())]
    assert "web/url_dedup (of crawl)" in warnings


def test_a_file_that_two_sources_read_causes_a_warning(project, monkeypatch, capsys):
    """The warning appears once in the plan and once after the run, under any name of the file."""
    (project.folder / "also").mkdir()
    os.link(project.folder / "in" / "00.jsonl", project.folder / "also" / "other.jsonl")
    project.recipe.write_text(
        "recipe: twice\nstore: ./store\nsources:\n"
        "  a: {kind: text, read: {format: jsonl, paths: [in/*.jsonl]}}\n"
        "  b: {kind: text, read: {format: jsonl, paths: [in/01.jsonl, also/]}}\n"
        "steps: [stagebox.length]\n"
    )
    expected = (
        "2 files are read by each of the sources a, b (the first: 00.jsonl), so the corpus has their documents 2 times"
    )
    monkeypatch.setattr("sys.argv", ["gristmill", "plan", str(project.recipe)])
    assert run_command() == 0
    assert capsys.readouterr().out.count(expected) == 1
    assert [expected in line for line in find_warnings(project.run())].count(True) == 1


def test_members_of_one_archive_may_be_read_by_two_sources(project, capsys):
    """Only sources that name the same members cause a warning."""
    with zipfile.ZipFile(project.folder / "in.zip", "w") as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}/x.jsonl", f'{{"text": "mill {name}"}}\n')
    for paths, count in ((("in.zip/a/", "in.zip/b/"), 0), (("in.zip/*/", "in.zip/*/"), 1)):
        first, second = (f"{{kind: text, read: {{format: jsonl, paths: [{path}]}}}}" for path in paths)
        project.recipe.write_text(
            f"recipe: parts\nstore: ./store\nsources:\n  a: {first}\n  b: {second}\nsteps: [stagebox.length]\n"
        )
        found = find_warnings(project.run())
        assert sum("read by each of the sources a, b" in line for line in found) == count


COPIES = [" ".join(f"{word}{number}" for word in ("mill", "corn", "rye", "wheat", "sack") * 3) for number in range(5)]


def two_sources(project, steps, read="", kinds=("text", "text")):
    """Two sources with the same five documents."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in COPIES)
    for name in "ab":
        (project.folder / f"{name}.jsonl").write_text(lines)
    sources = "".join(
        f"  {name}: {{kind: {kind}, read: {{format: jsonl, paths: [{name}.jsonl]{read.format(name)}}}}}\n"
        for name, kind in zip("ab", kinds, strict=True)
    )
    project.recipe.write_text(f"recipe: two\nstore: ./store\nsources:\n{sources}steps: {steps}\n")
    run = project.run()
    return funnels(run), find_warnings(run)


@pytest.mark.parametrize("step", ["exact_dedup", "near_dedup"])
def test_copies_in_two_sources_are_found_by_default(project, step):
    """One copy of each text is kept, even without a snapshot; the funnel and the plan say what was compared."""
    found, warnings = two_sources(project, f"[{step}]")
    assert sum(one["kept"]["rows"] for one in found.values()) == len(COPIES)
    words = {"exact_dedup": "over all sources", "near_dedup": "within each snapshot"}
    assert found["a"]["scopes"] == found["b"]["scopes"] == {f"all/{step}": words[step]}
    mill = project.mill()
    lines = {line.id: line.explained for line in make_plan(mill, mill.dry_run())}
    assert lines[f"all/{step}"][0] == f"compares documents {words[step]}"
    assert warnings == []


@pytest.mark.parametrize(
    ("steps", "read", "kinds", "scope"),
    [
        ("[near_dedup]", ", snapshot: {}", ("text", "text"), "all/near_dedup compares documents within each snapshot"),
        ("[exact_dedup: {scope: source}]", "", ("text", "text"), "each source"),
        ("{text: [exact_dedup], web: [exact_dedup]}", "", ("text", "web"), "text/exact_dedup and web/exact_dedup each"),
    ],
)
def test_copies_that_dedup_does_not_compare_cause_a_warning(project, steps, read, kinds, scope):
    """The copies are in another snapshot, source or route."""
    found, warnings = two_sources(project, steps, read, kinds)
    assert sum(one["kept"]["rows"] for one in found.values()) == 2 * len(COPIES)
    (line,) = warnings
    assert line.startswith("copies_left: 5 documents are exact copies of others in the corpus")
    assert scope in line


def test_kept_pages_without_text_cause_a_warning_and_count_no_text(project, tmp_path, capsys, monkeypatch):
    """An archive may contain text, so only a run finds out; every command counts bytes of text, not of markup."""
    pages = [
        Response(f"https://a.example/{n}", f"<html><body>{text}</body></html>".encode())
        for n, text in enumerate(COPIES)
    ]
    write(project.folder / "a.warc.gz", pages, datetime(2026, 11, 1, tzinfo=UTC))
    project.recipe.write_text(
        "recipe: pages\nstore: ./store\nsources:\n"
        "  crawl: {kind: web, read: {format: warc, paths: [a.warc.gz]}}\nsteps: [stagebox.length]\n"
    )
    run = project.run()
    (warning,) = [line for line in find_warnings(run) if "no text" in line]
    assert "crawl/corpus: 5 of 5 kept documents have no text, only markup" in warning
    assert "Add `- extract`" in warning
    kept = funnels(run)["crawl"]["kept"]
    assert (kept["rows"], kept["text_bytes"]) == (5, 0)
    assert kept["raw_bytes"] > 0
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["gristmill", "export", str(project.recipe), "--out", str(out)])
    assert run_command() == 0
    assert "5 documents, 0 B of text" in capsys.readouterr().out
    assert "5 documents, 0 B of text" in (out / "README.md").read_text()
