"""A takedown from the request to the proof: the named document and its copies go, and nothing else changes."""

import json
import shutil

import pytest

from gristmill.cli.main import run_command
from gristmill.loader import Loader, read_manifest
from gristmill.query.documents.documents import rows
from gristmill.stages.matches import content_hash
from sharded import Corpus

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A corpus before and after a takedown."""
    from conftest import Project

    folder = tmp_path_factory.mktemp("taken")
    corpus = Corpus(Project(folder))
    corpus.recipe()
    text = corpus.project.recipe.read_text().replace("steps: []", "steps: [near_dedup]\ntakedowns: requests.yaml")
    corpus.project.recipe.write_text(text)
    (folder / "requests.yaml").write_text("")
    path = folder / "notes.jsonl"
    copies = [{"id": f"copy{n}", "text": KEPT + " " * n + (" end" if n else "")} for n in range(3)]
    path.write_text("\n".join([path.read_text(), *map(json.dumps, copies)]))
    before, _ = corpus.run()
    kept = [row for row in rows(before, None, False, None) if row.text and row.text.startswith(KEPT)]
    assert len(kept) == 1, "the copies are one cluster, with one keeper"
    named = kept[0].fields["doc_id"].hex()
    (folder / "requests.yaml").write_text(f"- id: r1\n  doc_ids: ['{named}']\n")
    after, _ = corpus.run()
    store = folder / "store"
    return {"folder": folder, "store": store, "named": named, "before": before, "after": after, "corpus": corpus}


KEPT = (
    "the wheel turns by day and by night while the miller sleeps beside his sacks of rye and of wheat and dreams of a "
    "river that never falls, of stones that need no dressing, and of a road without a hill from the mill to the town"
)
"""Long enough for tier A, which the mix draws completely."""


def run_gristmill(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["gristmill", *map(str, arguments)])
    code = run_command()
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    return code, output


@pytest.fixture
def receipt(taken, tmp_path, monkeypatch, capsys):
    """A receipt of the takedown."""
    version = taken["before"].ended["version"]
    arguments = ("takedown", "receipt", taken["corpus"].project.recipe, "--before", version, "--out", tmp_path / "r")
    code, output = run_gristmill(monkeypatch, capsys, *arguments)
    assert code == 0, output.err
    return tmp_path / "r"


def test_removing_a_keeper_leaves_no_copy_and_changes_one_shard(taken):
    """No step before the takedown runs again."""
    after = [row.text for row in rows(taken["after"], None, False, None)]
    assert not any(text.startswith(KEPT) for text in after)
    old, new = (read_manifest(run.shards) for run in (taken["before"], taken["after"]))
    changed = [
        (one.bin, two.bin)
        for group, other in zip(old.groups, new.groups, strict=True)
        for one, two in zip(group.shards, other.shards, strict=True)
        if one != two
    ]
    assert len(changed) == 1
    executed = {node for node, state in taken["after"].states.items() if state.executed}
    assert not executed & {"all/near_dedup", "notes/ingest"}, "nothing before the takedown runs again"
    assert len(taken["after"].states["all/tokens"].executed) <= 1


def test_check_shows_versions_and_samples_of_a_document(taken, monkeypatch, capsys):
    """The samples equal those in which the loader returns the document."""
    store = f"{taken['store']}@{taken['before'].ended['version']}"
    code, output = run_gristmill(
        monkeypatch, capsys, "takedown", "check", taken["folder"] / "requests.yaml", store, "--json"
    )
    (document,) = json.loads(output.out)["documents"]
    assert code == 0
    assert document["doc_id"] == taken["named"]
    assert document["kept"]
    assert document["versions"] == [taken["before"].ended["version"]]
    loader = Loader(taken["before"].shards)
    for number in range(loader.samples):
        has = bytes.fromhex(taken["named"]) in [bytes(doc_id) for doc_id in loader[number].doc_ids]
        assert has == (number in document["samples"])


def test_check_finds_copies_and_exits_with_1_when_a_request_finds_nothing(taken, tmp_path, monkeypatch, capsys):
    """The unmatched item is listed."""
    (tmp_path / "one.txt").write_text(KEPT + " or so")
    (tmp_path / "r.yaml").write_text("- id: a\n  texts: [one.txt]\n- id: b\n  domains: [nobody.example]\n")
    store = f"{taken['store']}@{taken['before'].ended['version']}"
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "check", tmp_path / "r.yaml", store, "--json")
    result = json.loads(output.out)
    assert code == 1
    assert [entry["item"] for entry in result["nothing_found"]] == ["nobody.example"]
    assert [entry["doc_id"] for entry in result["documents"]] == [taken["named"]]
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "check", tmp_path / "r.yaml", store)
    assert code == 1
    assert "b: nobody.example (domains) matches nothing." in output.out


def test_check_works_before_the_run_that_applies_the_requests(taken, tmp_path, monkeypatch, capsys):
    """New requests in the recipe's own file make the last run stale: check searches that run and says so."""
    corpus, requests = taken["corpus"], taken["folder"] / "requests.yaml"
    before = requests.read_text()
    row = next(row for row in rows(taken["after"], None, False, None) if row.text)
    requests.write_text(f"{before}- id: r2\n  doc_ids: ['{row.fields['doc_id'].hex()}']\n")
    try:
        code, output = run_gristmill(
            monkeypatch, capsys, "takedown", "check", requests, corpus.project.recipe, "--json"
        )
    finally:
        requests.write_text(before)
    assert code == 0
    assert "The recipe has changed since its last run, so that run is searched." in output.err
    assert {document["request"] for document in json.loads(output.out)["documents"]} == {"r1", "r2"}


def test_the_receipt_shows_the_state_before_and_after(taken, receipt):
    """It has the documents, the changed shards and no text of the document."""
    content = json.loads((receipt / "receipt.json").read_text())
    assert [document["doc_id"] for document in content["documents"]] == [taken["named"]]
    assert content["requests"][0]["removed"] == 1
    (changed,) = content["shards"]["changed"]
    assert changed["before"] != changed["after"]
    assert content["shards"]["unchanged"] > 1
    page = (receipt / "receipt.html").read_text()
    assert taken["named"] in page
    assert "<script" not in page
    assert KEPT.encode() not in (receipt / "shingles.parquet").read_bytes()


def test_verify_finds_nothing_in_the_new_shards(receipt, monkeypatch, capsys):
    """The exit code is 0."""
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", receipt)
    assert (code, "none of 1 document is left" in output.out) == (0, True), output.out


def test_verify_warns_about_a_receipt_with_another_word_splitter(receipt, monkeypatch, capsys):
    """An older version computed other shingles outside ASCII, so its receipt may miss copies there."""
    monkeypatch.setattr("gristmill.cli.corpus.takedown_receipt.WORDS", 0)
    _, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", receipt)
    assert "copies outside ASCII may be missed" in output.err


def test_verify_finds_shards_that_were_not_rewritten(taken, receipt, monkeypatch, capsys):
    """The exit code is 1, and the document is named."""
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", receipt, "--shards", taken["before"].shards)
    assert code == 1
    assert "it was not rewritten" in output.out
    assert f"document {taken['named']} of r1 is still there" in output.out


def test_verify_finds_a_copy_that_was_kept(taken, receipt, tmp_path, monkeypatch, capsys):
    """The run used `copies: keep` and no near_dedup, so it kept the copies."""
    folder = tmp_path / "forgot"
    folder.mkdir()
    for name in ("notes.jsonl", "tales.jsonl", "tokenizer.json", "recipe.yaml", "requests.yaml"):
        shutil.copyfile(taken["folder"] / name, folder / name)
    text = (folder / "recipe.yaml").read_text()
    text = text.replace("takedowns: requests.yaml", "takedowns: {file: requests.yaml, copies: keep}")
    (folder / "recipe.yaml").write_text(text.replace("[near_dedup]", "[]"))
    code, output = run_gristmill(monkeypatch, capsys, "run", folder / "recipe.yaml")
    assert code == 0, output.err
    shards = folder / "store" / "shards" / "small" / "latest"
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", receipt, "--shards", shards)
    assert code == 1
    assert f"of {taken['named']} of r1" in output.out
    assert "is a near copy" in output.out


def test_a_loader_accepts_a_receipt_as_mask(taken, receipt):
    """Tokens stay the same, and those of the document are masked."""
    masked, plain = Loader(taken["before"].shards, mask=receipt), Loader(taken["before"].shards)
    content = json.loads((receipt / "receipt.json").read_text())
    hit = content["documents"][0]["samples"][0]
    tokens = sum(int(batch.is_masked.sum()) for batch in masked)
    assert tokens > 0
    assert (masked[hit].tokens == plain[hit].tokens).all()


def test_wrong_arguments_are_one_message(taken, receipt, tmp_path, monkeypatch, capsys):
    """The exit code is 2."""
    recipe, store = taken["corpus"].project.recipe, taken["store"]
    first = taken["before"].ended["version"]
    (tmp_path / "bad.yaml").write_text("- id: a\n  urls: [x]\n")
    damaged = tmp_path / "damaged"
    shutil.copytree(receipt, damaged)
    (damaged / "shingles.parquet").write_bytes(b"PAR1")
    short = tmp_path / "short"
    shutil.copytree(receipt, short)
    content = json.loads((short / "receipt.json").read_text())
    del content["near"]
    (short / "receipt.json").write_text(json.dumps(content))
    for arguments, message in [
        (("check", tmp_path / "absent.yaml", recipe), "cannot be read"),
        (("check", tmp_path / "bad.yaml", recipe), "is not a URL"),
        (("check", taken["folder"] / "requests.yaml", f"{store}@nobody"), "no finished run"),
        (("check", taken["folder"] / "requests.yaml", recipe, "--near", "2"), "--near"),
        (("receipt", recipe, "--out", receipt), "exists"),
        (("receipt", recipe, "--before", "nobody", "--out", tmp_path / "x"), "no finished run"),
        (("receipt", recipe, "--before", "small", "--out", tmp_path / "y"), "is the version that the receipt is for"),
        (("receipt", recipe, "--before", first, "--out", "/proc/no/r"), "--out"),
        (("verify", tmp_path), "receipt"),
        (("verify", damaged), "hash is not the one in the receipt"),
        (("verify", short), "was changed after it was written"),
        (("verify", receipt, "--shards", tmp_path / "nowhere"), "nowhere"),
    ]:
        code, output = run_gristmill(monkeypatch, capsys, "takedown", *arguments)
        assert code == 2, (arguments, output)
        assert message in output.err, (arguments, output.err)


def test_invalid_requests_are_reported_with_their_line(taken, tmp_path, monkeypatch, capsys):
    """`plan` names the line in the recipe and the fault in the requests."""
    recipe = tmp_path / "recipe.yaml"
    text = taken["corpus"].project.recipe.read_text()
    for name in ("notes.jsonl", "tales.jsonl", "tokenizer.json"):
        shutil.copyfile(taken["folder"] / name, tmp_path / name)
    for requests, message in [
        (None, "does not exist"),
        ("- id: a\n  urls: [x]\n", "requests.yaml:2: 'x' is not a URL"),
        ("- id: a\n  texts: [absent.txt]\n", "absent.txt"),
        ("- id: a\n  texts: [/dev/zero]\n", "it is not a file"),
    ]:
        if requests is not None:
            (tmp_path / "requests.yaml").write_text(requests)
        recipe.write_text(text)
        code, output = run_gristmill(monkeypatch, capsys, "plan", recipe)
        assert code == 2
        assert "recipe.yaml:" in output.err
        assert message in output.err


def test_a_receipt_describes_the_old_version_after_the_inputs_changed(taken, tmp_path, monkeypatch, capsys):
    """The page is gone from the inputs and all later records moved up, so ids that depend on positions changed."""
    folder = tmp_path / "moved"
    shutil.copytree(taken["folder"], folder, ignore=shutil.ignore_patterns("store"))
    notes, recipe = folder / "notes.jsonl", folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("fields: {key: id}", "fields: {url: url}"))
    (folder / "requests.yaml").write_text("")
    lines = [json.loads(line) for line in notes.read_text().splitlines() if line.strip()]
    text = " ".join(f"word{number}" for number in range(60))
    lines.insert(0, {"text": text, "url": "https://a.example/first"})
    notes.write_text("\n".join(map(json.dumps, lines)))
    assert run_gristmill(monkeypatch, capsys, "run", recipe, "--tag", "first")[0] == 0
    notes.write_text("\n".join(map(json.dumps, lines[1:])))
    (folder / "requests.yaml").write_text("- id: r\n  urls: [https://a.example/first]\n")
    assert run_gristmill(monkeypatch, capsys, "run", recipe)[0] == 0
    code, output = run_gristmill(
        monkeypatch, capsys, "takedown", "receipt", recipe, "--before", "first", "--out", tmp_path / "q"
    )
    assert code == 0, output.err
    (document,) = json.loads((tmp_path / "q" / "receipt.json").read_text())["documents"]
    assert (document["url"], document["content_hash"]) == ("https://a.example/first", content_hash(text))
    assert run_gristmill(monkeypatch, capsys, "takedown", "verify", tmp_path / "q")[0] == 0
    code, output = run_gristmill(
        monkeypatch, capsys, "takedown", "verify", tmp_path / "q", "--shards", f"{folder}/store@first"
    )
    assert code == 1
    assert f"document {document['doc_id']} of r is still there" in output.out


@pytest.mark.parametrize("copies", ["list", "keep"])
def test_copies_that_stay_are_reported_but_are_not_faults(taken, tmp_path, monkeypatch, capsys, copies):
    """The setting `copies` decides whether they are listed or not searched for."""
    folder = tmp_path / copies
    shutil.copytree(taken["folder"], folder, ignore=shutil.ignore_patterns("store"))
    recipe = folder / "recipe.yaml"
    setting = f"takedowns: {{file: requests.yaml, copies: {copies}}}"
    recipe.write_text(recipe.read_text().replace("takedowns: requests.yaml", setting).replace("[near_dedup]", "[]"))
    requests = (folder / "requests.yaml").read_text()
    (folder / "requests.yaml").write_text("")
    assert run_gristmill(monkeypatch, capsys, "run", recipe, "--tag", "first")[0] == 0
    (folder / "requests.yaml").write_text(requests)
    assert run_gristmill(monkeypatch, capsys, "run", recipe)[0] == 0
    arguments = ("takedown", "receipt", recipe, "--before", "first", "--out", folder / "r", "--json")
    content = json.loads(run_gristmill(monkeypatch, capsys, *arguments)[1].out)
    assert [document["doc_id"] for document in content["documents"]] == [taken["named"]]
    assert len(content["listed"]) == 2
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", folder / "r")
    assert code == 0
    messages = {"list": "except 2 copies that the receipt lists (copies: list)", "keep": "copies were not searched for"}
    assert messages[copies] in output.out


def test_a_name_that_means_a_recipe_or_a_hash_is_refused(taken, monkeypatch, capsys):
    """Such a version name would be ambiguous."""
    for name in ("small", "0123456789ab"):
        code, output = run_gristmill(monkeypatch, capsys, "versions", "tag", f"{taken['store']}@small", name)
        assert code == 2
        assert "would be ambiguous" in output.err


@pytest.mark.parametrize("more_steps", ["", ", scrub", ", line_dedup", ", line_dedup, scrub"])
def test_copies_of_a_dropped_document_are_removed_whatever_steps_follow(
    project, more_steps, tmp_path, monkeypatch, capsys
):
    """Steps after the drop never read its text: the run, `check` by URL and `check` by hash still find it."""
    for name in ("kept", "named"):
        lines = [{"id": n, "text": f"{KEPT} {n} {n} {n}", "url": f"https://{name}.example/{n}"} for n in range(4)]
        (project.folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read = "{{kind: text, read: {{format: jsonl, paths: [{0}.jsonl], fields: {{key: id, url: url}}}}}}"
    project.recipe.write_text(
        f"recipe: project\nstore: ./store\ntakedowns: requests.yaml\nsources:\n  kept: {read.format('kept')}\n"
        f"  named: {read.format('named')}\nsteps: [{{exact_dedup: {{keep: {{sources: [kept, named]}}}}}}{more_steps}]\n"
    )
    requests = project.folder / "requests.yaml"
    requests.write_text("")
    before = project.run()
    assert len(list(rows(before, None, False, None))) == 4
    hashed = content_hash(f"{KEPT} 0 0 0")
    requests.write_text(f"- id: r\n  domains: [named.example]\n- id: h\n  content_hashes: ['{hashed}']\n")
    (tmp_path / "d.yaml").write_text("- id: r\n  urls: ['https://named.example/0']\n")
    store = f"{project.store}@{before.ended['version']}"
    for file in (tmp_path / "d.yaml", requests):
        code, output = run_gristmill(monkeypatch, capsys, "takedown", "check", file, store, "--json")
        found = json.loads(output.out)["documents"]
        assert code == 0
        assert {True, False} == {document["kept"] for document in found}, "the dropped document and its kept copy"
    after = project.run()
    assert list(rows(after, None, False, None)) == []
    (tmp_path / "h.yaml").write_text(f"- id: h\n  content_hashes: ['{hashed}']\n")
    store = f"{project.store}@{after.ended['version']}"
    code, _ = run_gristmill(monkeypatch, capsys, "takedown", "check", tmp_path / "h.yaml", store)
    assert code == 0, "dropped documents are found by their hash too"


def test_a_receipt_with_listed_copies_shows_the_removed_document(taken, tmp_path, monkeypatch, capsys):
    """The named document is removed, although an exact copy of its text stays under another id."""
    corpus = taken["corpus"]
    text, path = corpus.project.recipe.read_text(), taken["folder"] / "notes.jsonl"
    notes = path.read_text()
    (named,) = [row for row in rows(taken["before"], None, False, None) if row.fields["doc_id"].hex() == taken["named"]]
    path.write_text(f"{notes}\n{json.dumps({'id': 'twin', 'text': named.text})}")
    listing = text.replace("steps: [near_dedup]", "steps: []").replace(
        "takedowns: requests.yaml", "takedowns: {file: requests.yaml, copies: list}"
    )
    requests = taken["folder"] / "requests.yaml"
    request = requests.read_text()
    try:
        corpus.project.recipe.write_text(f"{listing}restore: {{r1: its copies are looked at first}}\n")
        requests.write_text("")
        before, _ = corpus.run()
        corpus.project.recipe.write_text(listing)
        requests.write_text(request)
        corpus.run()
        arguments = ("takedown", "receipt", corpus.project.recipe, "--before", before.ended["version"])
        code, output = run_gristmill(monkeypatch, capsys, *arguments, "--out", tmp_path / "r")
    finally:
        corpus.project.recipe.write_text(text)
        requests.write_text(request)
        path.write_text(notes)
    assert code == 0, output.err
    content = json.loads((tmp_path / "r" / "receipt.json").read_text())
    assert [document["doc_id"] for document in content["documents"]] == [taken["named"]]
    assert content["listed"]
    assert content["left"] == []
    code, output = run_gristmill(monkeypatch, capsys, "takedown", "verify", tmp_path / "r")
    assert (code, "none of 1 document is left" in output.out) == (0, True), output.out + output.err


def test_a_receipt_has_what_the_version_restored(taken, tmp_path, monkeypatch, capsys):
    """Under the reason that the recipe gave, in the receipt and on its page."""
    folder = shutil.copytree(taken["folder"], tmp_path / "copy", symlinks=True)
    recipe, requests = folder / "recipe.yaml", folder / "requests.yaml"
    requests.write_text("- id: r2\n  domains: [nobody.example]\n")
    recipe.write_text(f"{recipe.read_text()}restore: {{r1: 'the <b>author</b> agreed'}}\n")
    assert run_gristmill(monkeypatch, capsys, "run", recipe)[0] == 0
    arguments = ("takedown", "receipt", recipe, "--out", folder / "r", "--json")
    content = json.loads(run_gristmill(monkeypatch, capsys, *arguments)[1].out)
    assert content["restored"] == {"r1": "the <b>author</b> agreed"}
    assert "the &lt;b&gt;author&lt;/b&gt; agreed" in (folder / "r" / "receipt.html").read_text()
