"""A takedown from the request to the proof: what is named goes with its copies, and nothing else changes."""

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
    """A corpus before and after a takedown, with its receipt."""
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
"""Long enough for tier A, of which all is drawn."""


def typed(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["gristmill", *map(str, words)])
    code = run_command()
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said


@pytest.fixture
def receipt(taken, tmp_path, monkeypatch, capsys):
    version = taken["before"].ended["version"]
    words = ("takedown", "receipt", taken["corpus"].project.recipe, "--before", version, "--out", tmp_path / "r")
    code, said = typed(monkeypatch, capsys, *words)
    assert code == 0, said.err
    return tmp_path / "r"


def test_a_keeper_that_goes_leaves_no_copy_and_changes_one_shard(taken):
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
    ran = {node for node, made in taken["after"].states.items() if made.executed}
    assert not ran & {"all/near_dedup", "notes/ingest"}, "nothing before the takedown runs again"
    assert len(taken["after"].states["all/tokens"].executed) <= 1


def test_check_tells_where_everything_is(taken, monkeypatch, capsys):
    store = f"{taken['store']}@{taken['before'].ended['version']}"
    code, said = typed(monkeypatch, capsys, "takedown", "check", taken["folder"] / "requests.yaml", store, "--json")
    (found,) = json.loads(said.out)["documents"]
    assert code == 0
    assert found["doc_id"] == taken["named"]
    assert found["kept"]
    assert found["versions"] == [taken["before"].ended["version"]]
    loader = Loader(taken["before"].shards)
    for number in range(loader.samples):
        has = bytes.fromhex(taken["named"]) in [bytes(one) for one in loader[number].doc_ids]
        assert has == (number in found["samples"])


def test_check_finds_copies_and_ends_with_1_where_a_request_finds_nothing(taken, tmp_path, monkeypatch, capsys):
    (tmp_path / "one.txt").write_text(KEPT + " or so")
    (tmp_path / "r.yaml").write_text("- id: a\n  texts: [one.txt]\n- id: b\n  domains: [nobody.example]\n")
    store = f"{taken['store']}@{taken['before'].ended['version']}"
    code, said = typed(monkeypatch, capsys, "takedown", "check", tmp_path / "r.yaml", store, "--json")
    found = json.loads(said.out)
    assert code == 1
    assert [one["item"] for one in found["nothing_found"]] == ["nobody.example"]
    assert [one["doc_id"] for one in found["documents"]] == [taken["named"]]
    code, said = typed(monkeypatch, capsys, "takedown", "check", tmp_path / "r.yaml", store)
    assert code == 1
    assert "b: nobody.example (domains) matches nothing." in said.out


def test_check_answers_before_the_run_that_takes_down(taken, tmp_path, monkeypatch, capsys):
    """New requests in the recipe's own file make it stale: the answer is about the last finished run."""
    corpus, own = taken["corpus"], taken["folder"] / "requests.yaml"
    before = own.read_text()
    row = next(row for row in rows(taken["after"], None, False, None) if row.text)
    own.write_text(f"{before}- id: r2\n  doc_ids: ['{row.fields['doc_id'].hex()}']\n")
    try:
        code, said = typed(monkeypatch, capsys, "takedown", "check", own, corpus.project.recipe, "--json")
    finally:
        own.write_text(before)
    assert code == 0
    assert "The recipe has changed since its last run, so that run is searched." in said.err
    assert {one["request"] for one in json.loads(said.out)["documents"]} == {"r1", "r2"}


def test_the_receipt_says_what_was_and_what_is(taken, receipt):
    content = json.loads((receipt / "receipt.json").read_text())
    assert [one["doc_id"] for one in content["documents"]] == [taken["named"]]
    assert content["requests"][0]["removed"] == 1
    (changed,) = content["shards"]["changed"]
    assert changed["before"] != changed["after"]
    assert content["shards"]["unchanged"] > 1
    page = (receipt / "receipt.html").read_text()
    assert taken["named"] in page
    assert "<script" not in page
    assert KEPT.encode() not in (receipt / "shingles.parquet").read_bytes()


def test_verify_finds_nothing_in_the_new_shards(receipt, monkeypatch, capsys):
    code, said = typed(monkeypatch, capsys, "takedown", "verify", receipt)
    assert (code, "none of 1 document is left" in said.out) == (0, True), said.out


def test_verify_warns_of_a_receipt_that_reads_words_in_another_way(receipt, monkeypatch, capsys):
    """Shingles of an older Gristmill are others outside of ASCII, so its receipt may miss copies there."""
    monkeypatch.setattr("gristmill.cli.corpus.takedown_receipt.WORDS", 0)
    _, said = typed(monkeypatch, capsys, "takedown", "verify", receipt)
    assert "copies outside ASCII may be missed" in said.err


def test_verify_finds_shards_that_were_not_rewritten(taken, receipt, monkeypatch, capsys):
    code, said = typed(monkeypatch, capsys, "takedown", "verify", receipt, "--shards", taken["before"].shards)
    assert code == 1
    assert "it was not rewritten" in said.out
    assert f"document {taken['named']} of r1 is still there" in said.out


def test_verify_finds_a_copy_that_moved_up(taken, receipt, tmp_path, monkeypatch, capsys):
    """A run that forgot the copies: the request with `copies: keep`, before near_dedup had ever seen them."""
    folder = tmp_path / "forgot"
    folder.mkdir()
    for name in ("notes.jsonl", "tales.jsonl", "tokenizer.json", "recipe.yaml", "requests.yaml"):
        shutil.copyfile(taken["folder"] / name, folder / name)
    text = (folder / "recipe.yaml").read_text()
    text = text.replace("takedowns: requests.yaml", "takedowns: {file: requests.yaml, copies: keep}")
    (folder / "recipe.yaml").write_text(text.replace("[near_dedup]", "[]"))
    code, said = typed(monkeypatch, capsys, "run", folder / "recipe.yaml")
    assert code == 0, said.err
    shards = folder / "store" / "shards" / "small" / "latest"
    code, said = typed(monkeypatch, capsys, "takedown", "verify", receipt, "--shards", shards)
    assert code == 1
    assert f"of {taken['named']} of r1" in said.out
    assert "is a near copy" in said.out


def test_seen_tells_what_a_training_has_met(taken, receipt, monkeypatch, capsys):
    content = json.loads((receipt / "receipt.json").read_text())
    samples = content["documents"][0]["samples"]
    assert samples
    for at, expected in ((samples[0], []), (samples[0] + 1, samples[:1]), (10**9, samples)):
        _, said = typed(monkeypatch, capsys, "takedown", "seen", receipt, "--sample", at, "--json")
        found = [one["seen_at"] for one in json.loads(said.out)["documents"]]
        assert found == ([expected] if expected else [])


def test_a_masked_loader_takes_the_receipt(taken, receipt):
    masked, plain = Loader(taken["before"].shards, mask=receipt), Loader(taken["before"].shards)
    content = json.loads((receipt / "receipt.json").read_text())
    hit = content["documents"][0]["samples"][0]
    tokens = sum(int(batch.is_masked.sum()) for batch in masked)
    assert tokens > 0
    assert (masked[hit].tokens == plain[hit].tokens).all()


def test_wrong_arguments_are_told(taken, receipt, tmp_path, monkeypatch, capsys):
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
    for words, result in [
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
        (("seen", receipt), "--sample"),
    ]:
        code, said = typed(monkeypatch, capsys, "takedown", *words)
        assert code == 2, (words, said)
        assert result in said.err, (words, said.err)


def test_a_recipe_with_wrong_requests_is_told_with_its_line(taken, tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "recipe.yaml"
    text = taken["corpus"].project.recipe.read_text()
    for name in ("notes.jsonl", "tales.jsonl", "tokenizer.json"):
        shutil.copyfile(taken["folder"] / name, tmp_path / name)
    for requests, result in [
        (None, "does not exist"),
        ("- id: a\n  urls: [x]\n", "requests.yaml:2: 'x' is not a URL"),
        ("- id: a\n  texts: [absent.txt]\n", "absent.txt"),
    ]:
        if requests is not None:
            (tmp_path / "requests.yaml").write_text(requests)
        recipe.write_text(text)
        code, said = typed(monkeypatch, capsys, "plan", recipe)
        assert code == 2
        assert "recipe.yaml:" in said.err
        assert result in said.err


def test_a_receipt_knows_what_was_though_the_inputs_are_others_now(taken, tmp_path, monkeypatch, capsys):
    """The page is gone from the inputs, and all that stood behind it has moved up: ids are those of places."""
    folder = tmp_path / "moved"
    shutil.copytree(taken["folder"], folder, ignore=shutil.ignore_patterns("store"))
    notes, recipe = folder / "notes.jsonl", folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("fields: {key: id}", "fields: {url: url}"))
    (folder / "requests.yaml").write_text("")
    lines = [json.loads(line) for line in notes.read_text().splitlines() if line.strip()]
    text = " ".join(f"word{number}" for number in range(60))
    lines.insert(0, {"text": text, "url": "https://a.example/first"})
    notes.write_text("\n".join(map(json.dumps, lines)))
    assert typed(monkeypatch, capsys, "run", recipe, "--tag", "first")[0] == 0
    notes.write_text("\n".join(map(json.dumps, lines[1:])))
    (folder / "requests.yaml").write_text("- id: r\n  urls: [https://a.example/first]\n")
    assert typed(monkeypatch, capsys, "run", recipe)[0] == 0
    code, said = typed(monkeypatch, capsys, "takedown", "receipt", recipe, "--before", "first", "--out", tmp_path / "q")
    assert code == 0, said.err
    (found,) = json.loads((tmp_path / "q" / "receipt.json").read_text())["documents"]
    assert (found["url"], found["content_hash"]) == ("https://a.example/first", content_hash(text))
    assert typed(monkeypatch, capsys, "takedown", "verify", tmp_path / "q")[0] == 0
    code, said = typed(monkeypatch, capsys, "takedown", "verify", tmp_path / "q", "--shards", f"{folder}/store@first")
    assert code == 1
    assert f"document {found['doc_id']} of r is still there" in said.out


@pytest.mark.parametrize("copies", ["list", "keep"])
def test_copies_that_stay_are_told_and_are_no_faults(taken, tmp_path, monkeypatch, capsys, copies):
    folder = tmp_path / copies
    shutil.copytree(taken["folder"], folder, ignore=shutil.ignore_patterns("store"))
    recipe = folder / "recipe.yaml"
    asked = f"takedowns: {{file: requests.yaml, copies: {copies}}}"
    recipe.write_text(recipe.read_text().replace("takedowns: requests.yaml", asked).replace("[near_dedup]", "[]"))
    requests = (folder / "requests.yaml").read_text()
    (folder / "requests.yaml").write_text("")
    assert typed(monkeypatch, capsys, "run", recipe, "--tag", "first")[0] == 0
    (folder / "requests.yaml").write_text(requests)
    assert typed(monkeypatch, capsys, "run", recipe)[0] == 0
    words = ("takedown", "receipt", recipe, "--before", "first", "--out", folder / "r", "--json")
    content = json.loads(typed(monkeypatch, capsys, *words)[1].out)
    assert [one["doc_id"] for one in content["documents"]] == [taken["named"]]
    assert len(content["listed"]) == 2
    code, said = typed(monkeypatch, capsys, "takedown", "verify", folder / "r")
    assert code == 0
    result = {"list": "except 2 copies that the receipt lists (copies: list)", "keep": "copies were not searched for"}
    assert result[copies] in said.out


def test_a_name_that_means_a_recipe_or_a_hash_is_refused(taken, monkeypatch, capsys):
    for name in ("small", "0123456789ab"):
        code, said = typed(monkeypatch, capsys, "versions", "tag", f"{taken['store']}@small", name)
        assert code == 2
        assert "would be ambiguous" in said.err


@pytest.mark.parametrize("more", ["", ", scrub", ", line_dedup", ", line_dedup, scrub"])
def test_copies_of_a_dropped_document_go_whatever_steps_come_later(project, more, tmp_path, monkeypatch, capsys):
    """Steps after the one that dropped it never saw its text: the run, `check` by URL and `check` by hash find it."""
    for name in ("kept", "named"):
        lines = [{"id": n, "text": f"{KEPT} {n} {n} {n}", "url": f"https://{name}.example/{n}"} for n in range(4)]
        (project.folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    read = "{{kind: text, read: {{format: jsonl, paths: [{0}.jsonl], fields: {{key: id, url: url}}}}}}"
    project.recipe.write_text(
        f"recipe: project\nstore: ./store\ntakedowns: requests.yaml\nsources:\n  kept: {read.format('kept')}\n"
        f"  named: {read.format('named')}\nsteps: [{{exact_dedup: {{keep: {{sources: [kept, named]}}}}}}{more}]\n"
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
        code, said = typed(monkeypatch, capsys, "takedown", "check", file, store, "--json")
        found = json.loads(said.out)["documents"]
        assert code == 0
        assert {True, False} == {one["kept"] for one in found}, "the dropped document and its kept copy"
    after = project.run()
    assert list(rows(after, None, False, None)) == []
    (tmp_path / "h.yaml").write_text(f"- id: h\n  content_hashes: ['{hashed}']\n")
    store = f"{project.store}@{after.ended['version']}"
    code, _ = typed(monkeypatch, capsys, "takedown", "check", tmp_path / "h.yaml", store)
    assert code == 0, "documents that were dropped are found by their hash, too"


def test_a_receipt_of_a_run_that_lists_copies_says_what_went(taken, tmp_path, monkeypatch, capsys):
    """The named document went, though an exact copy of its text stays under another id."""
    corpus = taken["corpus"]
    text, path = corpus.project.recipe.read_text(), taken["folder"] / "notes.jsonl"
    notes = path.read_text()
    (named,) = [row for row in rows(taken["before"], None, False, None) if row.fields["doc_id"].hex() == taken["named"]]
    path.write_text(f"{notes}\n{json.dumps({'id': 'twin', 'text': named.text})}")
    listing = text.replace("steps: [near_dedup]", "steps: []").replace(
        "takedowns: requests.yaml", "takedowns: {file: requests.yaml, copies: list}"
    )
    own = taken["folder"] / "requests.yaml"
    request = own.read_text()
    try:
        corpus.project.recipe.write_text(listing)
        own.write_text("")
        before, _ = corpus.run()
        own.write_text(request)
        corpus.run()
        words = ("takedown", "receipt", corpus.project.recipe, "--before", before.ended["version"])
        code, said = typed(monkeypatch, capsys, *words, "--out", tmp_path / "r")
    finally:
        corpus.project.recipe.write_text(text)
        own.write_text(request)
        path.write_text(notes)
    assert code == 0, said.err
    content = json.loads((tmp_path / "r" / "receipt.json").read_text())
    assert [one["doc_id"] for one in content["documents"]] == [taken["named"]]
    assert content["listed"]
    assert content["left"] == []
    code, said = typed(monkeypatch, capsys, "takedown", "verify", tmp_path / "r")
    assert (code, "none of 1 document is left" in said.out) == (0, True), said.out + said.err
