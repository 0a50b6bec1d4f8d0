"""A store keeps its takedowns: no run publishes again what an earlier version of its recipe took down."""

import json

import pytest
from conftest import Project

from gristmill.engine.executors.executor import InlineExecutor
from gristmill.engine.mill import Silent
from gristmill.engine.publish.kept_takedowns import takedown_notes
from gristmill.errors import UserError
from gristmill.query.documents.documents import rows
from gristmill.recipe.model import Recipe

pytestmark = pytest.mark.usefixtures("in_this_process")

LETTER = "dear miller the wheel is broken and the dam is low so send a mason before the first frost of the year comes"
PAGES = ["https://example.com/a", "https://example.com/b/c", "https://example.org/d"]
REQUESTS = f"""- id: r1
  urls: ['{PAGES[0]}']
- id: r2
  url_prefixes: ['https://example.com/b/']
  texts: [letter.txt]
"""


class Corpus:
    """A recipe with takedowns; `kept` are the URLs of kept documents."""

    def __init__(self, folder):
        self.project = Project(folder)
        lines = [{"url": url, "text": f"page {number} of the mill"} for number, url in enumerate(PAGES)]
        (folder / "in.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"text": f"{LETTER} and so on"}])))
        (folder / "letter.txt").write_text(LETTER)

    def write(self, requests=None, more="", settings="", name="corpus"):
        if requests is not None:
            (self.project.folder / "requests.yaml").write_text(requests)
            more = f"takedowns: {{file: requests.yaml{settings}}}\n{more}"
        self.project.recipe.write_text(
            f"recipe: {name}\nstore: ./store\nsources:\n  web: {{kind: web, domain: web, "
            f"read: {{format: jsonl, paths: [in.jsonl], fields: {{url: url}}}}}}\nsteps: []\n{more}\n"
        )

    def kept(self, *arguments):
        run = self.project.run()
        return [row.fields["url"] for row in rows(run, None, False, None) if row.text is not None]


@pytest.fixture
def taken(tmp_path):
    """A corpus whose first version has all documents, and whose second has taken some down."""
    corpus = Corpus(tmp_path)
    corpus.write("")
    assert corpus.kept() == [*PAGES, None]
    corpus.write(REQUESTS)
    assert corpus.kept() == [PAGES[2]]
    return corpus


def runs(corpus):
    return len([*(corpus.project.store / "runs").rglob("*.json")])


def test_going_back_to_an_older_recipe_is_refused_before_any_work(taken, say):
    """By `run`, `plan`, and for a part of the recipe, with the list of what is missing."""
    taken.write()
    before = runs(taken)
    for command in (("run",), ("plan",), ("run", "--until", "ingest"), ("plan", "--json"), ("run", "--sample", "50%")):
        output = say(command[0], taken.project.recipe, *command[1:])
        assert (output.code, output.out) == (2, ""), command
        assert "lack r1 (urls https://example.com/a; copies near 0.8), r2 (url_prefixes" in output.err
        assert "restore: {r1: REASON}" in output.err
    assert runs(taken) == before


def test_an_export_of_an_older_version_warns_of_takedowns(taken, say):
    """Its documents were taken down since; the newest version, and one with the same requests, have none of them."""
    said = "is older than the takedowns of corpus (r1, r2)"
    versions = [json.loads(line) for line in say("versions", taken.project.store, "--json").out.splitlines()]
    newest, older = (f"{taken.project.store}@{one['version']}" for one in versions)
    assert said in say("export", older, "--out", taken.project.folder / "older").err.replace("\n", " ")
    assert said not in say("export", newest, "--out", taken.project.folder / "newest").err.replace("\n", " ")
    taken.write(more="restore: {r1: withdrawn, r2: withdrawn}")
    assert len(taken.kept()) == 4
    assert said not in say("export", older, "--out", taken.project.folder / "restored").err.replace("\n", " ")


def test_takedowns_outlive_their_versions(taken, say):
    """Dropped and collected, the version is gone, and its takedowns are not."""
    newest = json.loads(say("versions", "show", taken.project.recipe, "--json").out)["version"]
    assert say("versions", "drop", taken.project.recipe, newest).code == 0
    assert say("gc", taken.project.store).code == 0
    taken.write()
    assert "lack r1" in say("run", taken.project.recipe).err


CHANGES = {
    "an item removed": (REQUESTS.replace("  texts: [letter.txt]\n", ""), "", "lack r2 (texts "),
    "a request removed": (REQUESTS.partition("- id: r2")[0], "", "lack r2 (url_prefixes https://example.com/b/;"),
    "a narrower prefix": (REQUESTS.replace("/b/", "/b/c"), "", "lack r2 (url_prefixes https://example.com/b/)"),
    "a page for a prefix": (REQUESTS.replace("url_prefixes: ['https://example.com/b/']", f"urls: ['{PAGES[1]}']"), "",
                            "lack r2 (url_prefixes"),
    "less alike copies": (REQUESTS, ", near: 0.9", "lack r1 (copies near 0.8), r2 (copies near 0.8)"),
    "copies stay": (REQUESTS, ", copies: list", "lack r1 (copies near 0.8)"),
    "other ids": (REQUESTS.replace("id: r", "id: q"), "", ""),
    "another spelling": (REQUESTS.replace(PAGES[0], "http://EXAMPLE.com/a?utm_source=x"), "", ""),
    "a domain for pages": (REQUESTS.replace(f"urls: ['{PAGES[0]}']", "domains: [example.com]"), "", ""),
    "a prefix for a page": (REQUESTS.replace(f"urls: ['{PAGES[0]}']", "url_prefixes: [https://example.com/]"), "", ""),
    "more alike copies": (REQUESTS, ", near: 0.7", ""),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_item_is_kept_under_any_request(taken, change):
    """What another item of the recipe takes down as well is not missing."""
    requests, settings, refusal = CHANGES[change]
    taken.write(requests, settings=settings)
    if refusal:
        with pytest.raises(UserError) as refused:
            taken.kept()
        assert refusal in str(refused.value)
    else:
        assert taken.kept() == [PAGES[2]]


def test_a_changed_text_of_a_request_is_missing(taken):
    """The file has the same name, and another text."""
    (taken.project.folder / "letter.txt").write_text(LETTER.replace("mason", "carpenter"))
    taken.write(REQUESTS)
    with pytest.raises(UserError, match=r"lack r2 \(texts "):
        taken.kept()


def test_a_domain_an_id_and_a_hash_are_kept(taken):
    """Each is missing when it is removed; a subdomain is not enough for its domain."""
    doc_id, digest = "0" * 31 + "a", "b" * 64
    more = f"- id: r3\n  domains: [example.net]\n  doc_ids: ['{doc_id}']\n  content_hashes: ['{digest}']\n"
    taken.write(REQUESTS + more)
    taken.kept()
    for old, new in (("[example.net]", "[www.example.net]"), (doc_id, "0" * 32), (digest, "c" * 64)):
        taken.write(REQUESTS + more.replace(old, new))
        with pytest.raises(UserError, match=rf"lack r3 \(\w+ {old.strip('[]')}\)"):
            taken.kept()


def test_restore_gives_back_with_a_reason_that_is_recorded_once(taken, say):
    """Later runs need neither the request nor the reason, and may keep the reason."""
    left = REQUESTS.partition("- id: r2")[0]
    taken.write(left, "restore: {r2: the notice was withdrawn}")
    assert say("plan", taken.project.recipe).code == 0
    assert taken.kept() == [*PAGES[1:], None]
    shown = say("versions", "show", taken.project.recipe)
    assert "the notice was withdrawn" in shown.out
    whole = json.loads(say("versions", "show", taken.project.recipe, "--json").out)
    assert whole["restored"] == {"r2": "the notice was withdrawn"}
    for more in ("restore: {r2: the notice was withdrawn}", ""):
        taken.write(left, more)
        assert taken.kept() == [*PAGES[1:], None]
    assert json.loads((taken.project.store / "takedowns/corpus.json").read_text())["body"]["restored"] == {
        "r2": "the notice was withdrawn"
    }
    taken.write()
    with pytest.raises(UserError, match=r"lack r1 \(urls"):
        taken.kept()
    taken.write(REQUESTS, "restore: {r2: the notice was withdrawn}")
    with pytest.raises(UserError, match=r"restore\.r2 has no effect"):
        taken.kept()


@pytest.mark.parametrize(
    ("restore", "requests", "message"),
    [
        ("{r3: withdrawn}", None, "restore.r3 is no request that a version of corpus"),
        ("{R1: withdrawn}", None, "Did you mean r1?"),
        ("{r1: ''}", None, "r1 has no reason"),
        ("{r1: }", None, "restore.r1"),
        ("[r1]", None, "restore"),
        ("{r1: withdrawn}", REQUESTS, "restore.r1 has no effect"),
    ],
)
def test_a_wrong_restore_is_refused(taken, say, restore, requests, message):
    """It names requests that versions carried out and the recipe no longer has, each with a reason."""
    taken.write(requests, f"restore: {restore}")
    for command in ("run", "plan"):
        output = say(command, taken.project.recipe)
        assert (output.code, output.out) == (2, "")
        assert message in output.err


def test_a_sample_adds_no_takedown(tmp_path, say):
    """It tries requests out, under a name of its own."""
    corpus = Corpus(tmp_path)
    corpus.write(REQUESTS)
    assert say("run", corpus.project.recipe, "--sample", "50%").code == 0
    corpus.write()
    assert corpus.kept() == [*PAGES, None]


def test_another_recipe_of_the_store_is_reminded_once(taken, say):
    """Its sources may be others, so its run is not refused."""
    taken.write(name="renamed")
    said = "corpus in the same store takes down what renamed does not: r1, r2"
    assert said in say("plan", taken.project.recipe).out.replace("\n", " ")
    assert said in say("run", taken.project.recipe).err.replace("\n", " ")
    assert said not in say("run", taken.project.recipe).err.replace("\n", " ")
    taken.write(name="third", more="restore: {r1: withdrawn}")
    assert "restore has no effect: no version of third" in say("run", taken.project.recipe).err.replace("\n", " ")


def test_trainings_are_not_reminded(taken):
    """They read corpora that exist, and nobody can add requests to them."""
    mill = taken.project.mill()
    assert takedown_notes_of(mill, "renamed", mill.recipe.sources) != []
    assert takedown_notes_of(mill, "trainings", {}) == []


def takedown_notes_of(mill, name, sources):
    return list(takedown_notes(mill.store, Recipe(name, 0, mill.store.uri, False, name, "", sources, (), {})))


def test_a_takedown_that_ends_during_a_run_refuses_it(tmp_path):
    """The run that began without the request publishes nothing, and is no version."""
    corpus = Corpus(tmp_path)
    corpus.write()
    mill = corpus.project.mill()
    mill.executor = lambda *_: InlineExecutor(mill.store)

    def meanwhile(run):
        corpus.write(REQUESTS)
        assert corpus.kept() == [PAGES[2]]
        return {"alarms": [], "notes": []}

    mill.watch = meanwhile
    with pytest.raises(UserError, match="lack r1"):
        mill.run(None, Silent())
    assert mill.newest_whole()["recipe_text"] == corpus.project.recipe.read_text()


def test_a_damaged_record_of_takedowns_stops_the_run(taken, say):
    """It is unknown what was taken down; `verify` finds it, too."""
    path = taken.project.store / "takedowns/corpus.json"
    path.write_text(path.read_text().replace("example", "exempla"))
    for command in ("run", "plan", "verify"):
        output = say(command, taken.project.recipe)
        assert output.code in (1, 2)
        assert "takedowns/corpus.json" in output.err + output.out


@pytest.fixture
def copied(tmp_path):
    """A named page and its copy under another address, both taken down, in a store with a version before that."""
    corpus = Corpus(tmp_path)
    text = " ".join(f"word{number}" for number in range(60))
    lines = [
        {"url": PAGES[0], "text": text},
        {"url": PAGES[1], "text": " ".join(map(str, range(200)))},
        {"url": PAGES[2], "text": text},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shards = "tokenizer: {train: {vocab: 600, sample_bytes: {web: 1KB}}}\nshards: {seq_len_tokens: 16}"
    corpus.write("[]", more=shards)
    assert corpus.kept() == PAGES
    corpus.project.mill().run(None, Silent(), tag="before")
    corpus.write(f"- id: r1\n  urls: ['{PAGES[0]}']", more=shards)
    assert corpus.kept() == [PAGES[1]]
    corpus.lines, corpus.shards = lines, shards
    return corpus


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_copy_stays_down_when_the_named_page_leaves_the_inputs(copied, say, tmp_path, is_gone):
    """Or has another text. Nothing recognises its copy, so nothing is published; with the receipt, the copy goes."""
    receipt = tmp_path / "receipt"
    assert say("takedown", "receipt", copied.project.recipe, "--before", "before", "--out", receipt).code == 0
    page = [] if is_gone else [{"url": PAGES[0], "text": "something else"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, [*page, *copied.lines[1:]])))
    published = copied.project.mill().newest_whole()
    output = say("run", copied.project.recipe)
    assert output.code == 2
    assert "1 document that the last version took down, or its copies, would not be recognised: r1 (" in output.err
    assert copied.project.mill().newest_whole() == published
    copied.write(f"- id: r1\n  urls: ['{PAGES[0]}']", more=copied.shards, settings=", receipts: receipt")
    assert copied.kept() == [PAGES[1]]
    assert copied.kept() == [PAGES[1]]


def test_a_document_is_not_published_under_another_id(copied, say, tmp_path):
    """An id contains the position, so a line before the document changes it."""
    doc_id = next(
        row.fields["doc_id"].hex() for row in rows(copied.project.run(), None, False, None) if row.text is not None
    )
    request = f"- id: r2\n  doc_ids: [{doc_id}]"
    for copies in ("go", "keep"):
        copied.write(request, more=copied.shards, settings=f", copies: {copies}", name=copies)
        copied.project.run()
        (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, [{"url": "x", "text": "new"}, *copied.lines])))
        assert f"would not be recognised: r2 ({doc_id})" in say("run", copied.project.recipe).err
        (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, copied.lines)))


@pytest.mark.parametrize("name", ["missing", "wrong"])
def test_a_receipt_that_is_none_is_refused(copied, say, tmp_path, name):
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "shingles.parquet").write_text("no receipt")
    copied.write("[]", more=copied.shards, settings=f", receipts: [{name}]")
    output = say("plan", copied.project.recipe)
    assert output.code == 2
    assert "the receipt cannot be read: " in output.err
