"""`hf://` locations: files of a dataset on the Hugging Face Hub, read with its client library."""

import gzip
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.objects.hub_server import TOKEN, Hub

from gristmill.errors import UserError
from gristmill.store.parquet import PartReader

hub_library = pytest.importorskip("huggingface_hub", reason="pip install 'gristmill[hf]'")


@pytest.fixture
def hub(monkeypatch):
    server = Hub()
    # As HF_ENDPOINT does, which the library reads when it is imported.
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    template = f"{server.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub_library.HfFileSystem.clear_instance_cache()
    yield server
    hub_library.HfFileSystem.clear_instance_cache()
    server.close()


def lines(word, count=300):
    return b"".join(json.dumps({"text": f"{word} {number}"}).encode() + b"\n" for number in range(count))


def table(word, count=300):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [f"{word} {number}" for number in range(count)]}), sink)
    return sink.getvalue().to_pybytes()


def texts(project, run):
    found = []
    for document in run.documents["x"]:
        reader = PartReader(project.mill().store, document.part)
        for group in range(len(reader.groups)):
            found += reader.read_group(group, ["text"]).column("text").to_pylist()
    return found


def recipe(project, path, format_name="jsonl"):
    project.recipe.write_text(
        f"recipe: hub\nstore: ./store\nsteps: []\nsources:\n  x: {{kind: text, read: {{format: {format_name}, "
        f"paths: ['{path}'], part_bytes: 4KB}}}}\n"
    )


@pytest.mark.parametrize(
    ("path", "format_name", "words"),
    [
        ("hf://datasets/our/set@c0ffee/data/*.jsonl", "jsonl", ["one"]),
        ("hf://datasets/our/set@c0ffee/data/two.jsonl.gz", "jsonl", ["two"]),
        ("hf://datasets/our/set@c0ffee/tables/", "parquet", ["three", "four"]),
        ("hf://datasets/our/set@c0ffee/**/*.parquet", "parquet", ["three", "four"]),
    ],
)
def test_files_folders_and_globs_of_a_pinned_revision(project, hub, path, format_name, words):
    hub.revisions["c0ffee"] = {
        "README.md": b"# set",
        "data/one.jsonl": lines("one"),
        "data/two.jsonl.gz": gzip.compress(lines("two")),
        "tables/a/three.parquet": table("three"),
        "tables/b/four.parquet": table("four"),
    }
    recipe(project, path, format_name)
    run = project.run()
    assert texts(project, run) == [f"{word} {number}" for word in words for number in range(300)]
    hub.requests.clear()
    again = project.run()
    assert [one.part for one in again.documents["x"]] == [one.part for one in run.documents["x"]]
    assert not any("/resolve/" in path for _, path in hub.requests)  # nothing is read or hashed again


def test_another_revision_is_other_work_and_an_equal_file_is_not(project, hub):
    hub.revisions["old"] = {"a.jsonl": lines("same"), "b.jsonl": lines("old")}
    hub.revisions["new"] = {"a.jsonl": lines("same"), "b.jsonl": lines("new")}
    recipe(project, "hf://datasets/our/set@old/*.jsonl")
    old = project.run()
    recipe(project, "hf://datasets/our/set@new/*.jsonl")
    new = project.run()
    assert texts(project, new)[300] == "new 0"
    assert old.documents["x"][0].part == new.documents["x"][0].part
    assert 0 < sum(project.executed(new).values()) < sum(project.executed(old).values())


def test_a_token_comes_from_the_environment_and_is_nowhere_else(project, hub, monkeypatch):
    hub.is_private = True
    hub.revisions["main"] = {"a.jsonl": lines("secret")}
    recipe(project, "hf://datasets/our/set/a.jsonl")
    with pytest.raises(UserError, match="our/set") as refused:
        project.run()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub_library.HfFileSystem.clear_instance_cache()
    run = project.run()
    assert len(texts(project, run)) == 300
    stored = [path.read_bytes() for path in project.store.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in data for data in stored)
    assert TOKEN not in str(refused.value)
    assert TOKEN.encode() not in pickle.dumps(run.inputs["x"].groups)


def test_a_revision_or_file_that_does_not_exist_is_one_message(project, hub):
    hub.revisions["main"] = {"a.jsonl": lines("a")}
    recipe(project, "hf://datasets/set")
    with pytest.raises(UserError, match=r"cannot be listed: .*`hf://datasets/OWNER/NAME@REVISION/PATH`"):
        project.run()
    for path in ("hf://datasets/our/set@gone/a.jsonl", "hf://datasets/our/set/b.jsonl", "hf://datasets/our/other/*"):
        recipe(project, path)
        with pytest.raises(UserError, match=r"our/(set|other)"):
            project.run()
