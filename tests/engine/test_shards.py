"""From raw files to shards and a manifest: nothing is lost or duplicated, and no work is repeated without need."""

import errno
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish import catalog
from gristmill.engine.publish.folder import find_manifest, give_name, point_latest_back, publish
from gristmill.engine.publish.garbage import collect, find_garbage
from gristmill.engine.publish.run_record import newest_run
from gristmill.errors import UserError
from gristmill.loader import Loader, read_manifest
from gristmill.store.store import Store
from sharded import MIX, PHASES, Corpus


@pytest.fixture
def corpus(project):
    made = Corpus(project)
    made.recipe()
    return made


def hashes(manifest):
    return {shard.bin for group in manifest.groups for shard in group.shards}


@pytest.mark.parametrize("pack", ["best_fit", "whole", "concat"])
def test_the_shards_hold_every_document_once(corpus, pack):
    """Token for token: the multiset of documents in the shards is that of the corpus."""
    corpus.recipe(shards=f"shard_tokens: 4000, pack: {pack}")
    _, manifest = corpus.run()
    expected = Counter((source, text) for source, texts in corpus.documents.items() for text in texts.values())
    assert corpus.texts(manifest) == expected
    assert {group.name for group in manifest.groups} == {"notes/A", "notes/B", "tales/A"}
    assert len(hashes(manifest)) > 3


def test_a_column_gives_the_domains_and_the_mix_draws_by_them(corpus, edit):
    """A document without a value is of its source's domain; a domain without a ratio and an unknown column are
    refused.
    """
    rows = [json.loads(line) for line in (corpus.folder / "notes.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        row |= [{"topic": "math"}, {"topic": "code"}, {}][number % 3]
    (corpus.folder / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus.recipe(mix="mix: {tokens: 40k, domains: {math: 3, tales: 1, notes: 1}, max_epochs: 50}")
    edit(
        corpus.project.recipe, "domain: notes, tier: {A: 'text_bytes > 200', B: else}", "domain: {column: langage_hint}"
    )
    with pytest.raises(UserError, match=r"sources\.notes\.domain\.column .* langage_hint.*Did you mean language_hint"):
        corpus.run()
    edit(corpus.project.recipe, "langage_hint", "language_hint")
    edit(corpus.project.recipe, "fields: {key: id}", "fields: {key: id, language: topic}")
    with pytest.raises(UserError, match=r"the group notes\+code is of the domain code, and .* Add code: and a number"):
        corpus.run()
    edit(corpus.project.recipe, "{math: 3,", "{math: 3, code: 0,")
    _, manifest = corpus.run()
    domains = {group.name: group.domain for group in manifest.groups}
    assert domains == {"notes": "notes", "notes+code": "code", "notes+math": "math", "tales/A": "tales"}
    weights = manifest.phases[0].weights
    assert "notes+code" not in weights
    assert weights["notes+math"] / manifest.samples == pytest.approx(0.6, abs=0.02)


@pytest.mark.slow
def test_the_manifest_does_not_depend_on_workers_or_the_place_of_the_store(corpus):
    """Law 1 for the last step: same recipe, same manifest, same shards."""
    _, one = corpus.run(workers=1, store=str(corpus.folder / "one"))
    _, two = corpus.run(workers=2, store=str(corpus.folder / "two"))
    assert one.hash == two.hash
    memory = f"memory://{corpus.folder}"
    run = corpus.project.run(store=memory)
    assert read_manifest(run.shards).hash == one.hash


@pytest.mark.slow
def test_other_part_sizes_give_the_same_shards(corpus):
    """The shards do not depend on how the input is cut into parts."""
    _, whole = corpus.run()
    corpus.recipe(more=", part_bytes: 2KB")
    _, cut = corpus.run()
    assert hashes(cut) == hashes(whole)


def test_other_weights_encode_and_write_nothing(corpus):
    """Changing the mix makes one new manifest over the same files."""
    _, before = corpus.run()
    corpus.recipe(mix=PHASES.replace("notes: 0.7, tales: 0.3", "notes: 0.2, tales: 0.8"))
    run, after = corpus.run()
    assert corpus.project.executed(run) == {"all/mix": 1}
    assert after.hash != before.hash
    assert hashes(after) == hashes(before)
    assert read_manifest(before.location).hash == before.hash, "a trainer's manifest stays as it was"


def test_the_loader_draws_what_the_mix_says(corpus):
    """Domains have their shares, tier A of notes comes four times as often, the cooldown has only its tiers."""
    corpus.recipe(mix=PHASES.replace("40k", "160k"))  # so much that a sample more or less does not show
    _, manifest = corpus.run()
    content = json.loads(Path(manifest.location).read_text())
    groups = {group["name"]: group for group in content["groups"]}
    main = manifest.phases[0]
    with Loader(manifest.location) as loader:
        drawn = [Counter(loader.sample(n).group for n in range(main.samples))]
        drawn.append(Counter(loader.sample(n).group for n in range(main.samples, manifest.samples)))
    tokens = {name: count * groups[name]["tokens"] / groups[name]["samples"] for name, count in drawn[0].items()}
    total = sum(tokens.values())
    assert tokens["tales/A"] / total == pytest.approx(0.3, abs=0.01)
    rate = {name: tokens[name] / groups[name]["tokens"] for name in ("notes/A", "notes/B")}
    assert rate["notes/A"] / rate["notes/B"] == pytest.approx(4, rel=0.06)
    assert set(drawn[1]) == {"notes/A", "tales/A"}


def test_a_document_of_twice_the_weight_is_drawn_twice_as_often(corpus, edit):
    """Its level is its own group, drawn more often; every document is still there once."""
    corpus.recipe(mix="mix: {tokens: 200k, domains: {notes: 1, tales: 0}, max_epochs: 99}")
    edit(corpus.project.recipe, "tier: {A: 'text_bytes > 200', B: else}", "weight: 1 + text_bytes / text_bytes")
    edit(corpus.project.recipe, "tier: A", "weight: text_bytes / 300")
    _, manifest = corpus.run()
    assert {group.name for group in manifest.groups if group.source == "notes"} == {"notes@2"}
    levels = {group.name for group in manifest.groups if group.source == "tales"}
    assert len(levels) > 1
    assert sum(corpus.texts(manifest).values()) == sum(map(len, corpus.documents.values()))
    corpus.recipe(mix="mix: {tokens: 200k, domains: {notes: 0, tales: 1}, max_epochs: 99}")
    edit(corpus.project.recipe, "tier: {A: 'text_bytes > 200', B: else}", "weight: 1 + text_bytes / text_bytes")
    edit(corpus.project.recipe, "tier: A", "weight: text_bytes / 300")
    run, manifest = corpus.run()
    assert corpus.project.executed(run) == {"all/mix": 1}
    weights = json.loads(Path(manifest.location).read_text())["groups"]
    (phase,) = manifest.phases
    rates = {
        group["name"]: phase.weights[group["name"]] / group["samples"]
        for group in weights
        if group["weight"] and group["source"] == "tales"
    }
    of = {group["name"]: group["weight"] for group in weights}
    first = next(iter(rates))
    for name, rate in rates.items():
        assert rate / rates[first] == pytest.approx(of[name] / of[first], rel=0.05)


def test_a_folder_is_complete_and_takes_no_disk_space(corpus):
    """Every file that the manifest names exists, as a hard link to a part, with the sidecars and the tokenizer."""
    _, manifest = corpus.run()
    folder = corpus.project.store / "shards" / "small" / "latest"
    assert folder.resolve().name == manifest.hash[:12]
    for digest in manifest.files:
        found = list(corpus.project.store.glob(f"parts/{digest[:2]}/{digest}.*"))
        assert found[0].samefile(manifest.where(digest))
    names = {path.name.partition(".")[2] for path in (folder / "tales" / "A").iterdir()}
    assert names == {"bin", "index", "lineage.parquet", "idx", "ds", "ds.index", "ds.metadata", "npy", "csv.gz"}
    assert (folder / "tokenizer.json").exists()


def test_a_part_has_a_second_name_without_a_copy(tmp_path):
    """The name survives the first one, is sealed like it, and giving it again changes nothing."""
    store = Store(str(tmp_path / "store"))
    part = store.put_part(b"tokens", "bin")
    for _ in range(2):
        give_name(store, part, "shards/small/one.bin")
    link = tmp_path / "store" / "shards" / "small" / "one.bin"
    assert link.samefile(store.part_path(part))
    other = store.put_part(b"others", "bin")
    give_name(store, other, "shards/small/one.bin")
    assert link.read_bytes() == b"others"
    assert list((tmp_path / "store" / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_disk_without_hard_links_gets_whole_folders_too(corpus, monkeypatch, number):
    """Copies, sealed and made once: a copied store, or the folder alone, does not need the original."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    run, manifest = corpus.run()
    assert not any(map(os.path.isabs, manifest.files.values()))
    folder = (corpus.project.store / "shards" / "small" / "latest").resolve()
    made = {path: path.stat().st_ino for path in folder.rglob("*.*")}
    publish(run, run.ended["version"], run.graph.recipe.text)
    assert made == {path: path.stat().st_ino for path in folder.rglob("*.*")}
    with Loader(folder) as loader:
        rows = [batch.tokens.tobytes() for batch in loader]
        assert not loader._reader.shards.checks.seal_broken
    shutil.copytree(folder, corpus.folder / "copied")
    shutil.rmtree(corpus.project.store)
    with Loader(corpus.folder / "copied", check="hash") as loader:
        assert [batch.tokens.tobytes() for batch in loader] == rows


def test_a_recipe_without_a_mix_draws_everything_once(corpus):
    """The default: one phase, every token once."""
    corpus.recipe(mix="")
    _, manifest = corpus.run()
    assert [phase.name for phase in manifest.phases] == ["main"]
    assert manifest.samples == pytest.approx(sum(group.samples for group in manifest.groups), abs=3)


def test_a_budget_beyond_the_text_is_reported_with_its_line_and_as_written(corpus):
    """Like other mistakes of a recipe, although it only shows when everything is encoded."""
    for mix, tokens in (
        ("mix:\n  max_epochs: 2\n  tokens: 99_999_999", r"12: mix: the mixture needs 99,999,999"),
        (
            "mix:\n  phases:\n  - {name: a, tokens: 5000001}\n  - {name: b, tokens: 7M}",
            r"10: mix: the mixture needs 12,000,001",
        ),
    ):
        corpus.recipe(mix=mix.replace("9_9", "99"))
        with pytest.raises(UserError, match=rf"recipe\.yaml:{tokens} tokens, but its groups have only"):
            corpus.run()


def test_garbage_collection_keeps_the_manifest_that_lives(corpus):
    """A published folder is kept for its trainer until it is named; its shards are kept if a newer one needs them."""
    _, before = corpus.run()
    corpus.recipe(mix=MIX)
    _, after = corpus.run()
    mill = corpus.project.mill()
    folder = f"small/{before.hash[:12]}"
    kept = find_garbage(mill.store, mill.dry_run())
    assert kept.published == (folder,)
    collect(mill.store, kept)
    with Loader(before.location) as loader:
        assert sum(len(batch) for batch in loader) == loader.samples
    for wrong in (f"small/{after.hash[:12]}", "small/none"):
        with pytest.raises(UserError, match="Nothing was removed"):
            find_garbage(mill.store, mill.dry_run(), [wrong])
    garbage = find_garbage(mill.store, mill.dry_run(), [folder])
    assert any(before.hash[:12] in path for path in garbage.files)
    assert not any(after.hash[:12] in path for path in garbage.files)
    freed = {path: size for path, size in garbage.files.items() if path.endswith(".bin")}
    assert freed
    assert not any(freed.values()), "the tokens stay in parts that the newer manifest needs, so nothing is freed"
    collect(mill.store, garbage)
    with Loader(after.location) as loader:
        assert sum(len(batch) for batch in loader) == loader.samples


def test_a_manifest_is_found_only_for_the_current_recipe(corpus):
    """A changed recipe has no shards until it has run."""
    mill = corpus.project.mill()
    with pytest.raises(UserError, match=r"Run: corpus\.run\(\)"):
        find_manifest(mill.dry_run())
    _, manifest = corpus.run()
    assert read_manifest(find_manifest(corpus.project.dry_run())).hash == manifest.hash
    corpus.recipe(mix=MIX)
    with pytest.raises(UserError, match="as it is now"):
        find_manifest(corpus.project.dry_run())


def test_a_dry_run_counts_shards_that_are_missing(corpus):
    """A lost token file is planned to be built again, and nothing else."""
    _, manifest = corpus.run()
    lost = manifest.groups[0].shards[0].bin
    next(corpus.project.store.glob(f"parts/{lost[:2]}/{lost}.bin")).unlink()
    state = corpus.project.dry_run()
    assert {node: len(made.missing) for node, made in state.states.items() if made.missing} == {"all/shards": 1}
    assert corpus.project.executed(corpus.project.run()) == {"all/shards": 1}


@pytest.mark.slow
def test_removing_10_documents_of_20000_rewrites_at_most_10_shards_of_100(corpus):
    """A takedown rewrites the shards that had the documents."""
    texts = corpus.write("notes", 20_000, 3, words=6)
    corpus.recipe(shards="shard_tokens: 4000", more=", part_bytes: 200KB")
    _, before = corpus.run()
    assert len(hashes(before)) > 100
    draw = random.Random(4)
    gone = set(draw.sample(sorted(texts), 10))
    corpus.write("notes", 20_000, 3, gone, words=6)
    _, after = corpus.run()
    assert 1 <= len(hashes(after) - hashes(before)) <= 10
    assert corpus.texts(after) == Counter(
        {("notes", text): 1 for key, text in texts.items() if key not in gone}
        | {("tales", text): 1 for text in corpus.documents["tales"].values()}
    )


def test_a_damaged_manifest_is_said_to_be_made_again_once(corpus):
    """By the run that makes it, and not again by publishing, which finds the damage."""
    run, _ = corpus.run()
    (part, _) = run.states["all/mix"].layers["", (0, 0)]
    path = Path(run.store.part_path(part))
    content, stamp = path.read_bytes(), path.stat()
    path.chmod(0o644)
    path.write_bytes(content[:-2] + b"x\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # the seal is whole
    mill, listener = corpus.project.mill(), Silent()
    mill.executor = lambda *_: InlineExecutor(mill.store)
    mill.run(None, listener)
    assert path.read_bytes() == content
    assert [note.count("making it again") for note in listener.notes] == [1]


def test_a_folder_in_the_place_of_latest_is_an_error_after_the_run(corpus):
    """A copy that resolves links has one: the run is recorded, but whoever opens `latest` does not read its shards."""
    corpus.run()
    latest = corpus.project.store / "shards" / "small" / "latest"
    whole = latest.resolve()
    latest.unlink()
    shutil.copytree(whole, latest)
    with pytest.raises(UserError, match="cannot be made a link to the newest shards: Is a directory"):
        corpus.run()
    assert newest_run(corpus.project.mill().store, "small")["status"] == "finished"


def test_latest_goes_back_when_the_newest_version_is_dropped(corpus):
    """To the newest one left, and it is removed with the last: no loader reads a dropped version."""
    latest = corpus.project.store / "shards" / "small" / "latest"
    targets = []
    for tokens in ("8k", "9k"):
        corpus.recipe(mix=f"mix: {{tokens: {tokens}, max_epochs: 50}}")
        corpus.run()
        targets.append(latest.readlink())
    assert targets[0] != targets[1]
    store = corpus.project.mill().store
    for left in (targets[0], None):
        with catalog.changing(store, print) as lease:
            version = next(
                one for one in catalog.list_versions(store) if one.hash == newest_run(store, "small")["version"]
            )
            catalog.drop(store, lease, version)
            point_latest_back(store, "small", print)
        assert (latest.readlink() if latest.is_symlink() else None) == left
