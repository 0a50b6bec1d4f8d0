"""gristmill bias: which groups a step keeps and removes, with confidence intervals, and documents near its cutoff."""

import hashlib
import json
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from conftest import Project

RECIPE = """
recipe: judged
seed: 5
store: ./store
sources:
  notes:
    kind: text
    domain: prose
    read: {{format: jsonl, paths: [notes.jsonl], fields: {{key: id}}, part_bytes: {part}}}
  news:
    kind: text
    domain: web
    read: {{format: jsonl, paths: [news.jsonl], fields: {{key: id}}, snapshot: "(new)"}}
steps:
  - judge
  - idle
  - safety: {{hashes: hashes.txt}}
"""
JUDGE = '''"""A score from the text itself, and a cutoff."""
import pyarrow as pa
from gristmill.stages.contract import Map, StageConfig

SCHEMA = pa.schema([("score", pa.float64()), ("word", pa.string()), ("drop", pa.string())])

class Config(StageConfig): ...

def apply(batch, config):
    scores = [float(text.split()[0]) if text and text[0].isdigit() else None for text in batch["text"].to_pylist()]
    drops = ["low_quality" if score is not None and score < 0.5 else None for score in scores]
    columns = [pa.array(scores, pa.float64()), pa.array(["x"] * len(scores)), pa.array(drops, pa.string())]
    return pa.record_batch(columns, schema=SCHEMA)
STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)
'''
IDLE = JUDGE.replace('"low_quality" if score is not None and score < 0.5 else None', "None")
SECRET = "0.499999 an unspeakable text at the very edge of the cutoff"


def documents():
    """Yield notes from many hosts, half of them kept, and news from many hosts, nearly all removed; some
    use a dialect.
    """
    for number in range(200):
        score = f"{(number * 37 % 200) / 200:.4f}"
        dialect = "Dat Huus steiht an'n Diek." if number % 4 == 0 else "The house stands at the dyke."
        text = f"{score} note <b>{number}</b> \x1b[m {dialect} {'Words and more words. ' * (number % 23)}"
        yield "notes", {"id": f"n{number}", "url": f"https://h{number // 2}.example/{number}", "text": text}
    for number in range(120):
        score = "0.9" if number < 3 else f"{number / 1000:.3f}"
        text = f"{score} news {number} of the valley, and what the miller says of it."
        yield "news", {"id": f"w{number}", "url": f"https://w{number}.example/", "text": text}
    yield "notes", {"id": "none", "text": "No score at all."}
    yield "notes", {"id": "secret", "url": "https://hidden.example/", "text": SECRET}


def make(folder, part="2KB"):
    project = Project(folder)
    for source in ("notes", "news"):
        lines = [json.dumps(record) for name, record in documents() if name == source]
        (folder / f"{source}.jsonl").write_text("\n".join(lines))
    (folder / "judge.py").write_text(JUDGE)
    (folder / "idle.py").write_text(IDLE)
    (folder / "hashes.txt").write_text(hashlib.sha256(SECRET.encode()).hexdigest())
    (folder / "terms").mkdir()
    (folder / "terms" / "platt.txt").write_text("# Low German\nhuus\ndiek\nan'n diek\n")
    (folder / "terms" / "falconry.txt").write_text("jesses\nlure\n")
    project.recipe.write_text(RECIPE.format(part=part))
    project.run()
    return project


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return make(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def bias(judged, say):
    def run_bias(*words, recipe=None):
        result = say("bias", recipe or judged.recipe, *words)
        found = [json.loads(line) for line in result.out.splitlines()] if "--json" in words and not result.code else []
        groups = {(one["by"], one["group"]): one for one in found if "by" in one}
        return SimpleNamespace(groups=groups, edge=[one for one in found if "edge" in one], **vars(result))

    return run_bias


def is_kept(source, record):
    return not (record["text"][0].isdigit() and float(record["text"].split()[0]) < 0.5)


def test_counts_equal_a_plain_count(bias):
    """Documents and bytes match for every source, domain and snapshot; the groups of each kind add up to the total."""
    groups = bias("--step", "judge", "--json").groups
    documents_of, kept, sizes = Counter(), Counter(), Counter()
    for name, one in documents():
        documents_of[name] += 1
        kept[name] += is_kept(name, one)
        sizes[name] += len(one["text"].strip().encode())
    for name in ("notes", "news"):
        own = groups["source", name]
        assert (own["documents"]["all"], own["documents"]["kept"]) == (documents_of[name], kept[name])
        assert own["documents"]["share"] == kept[name] / documents_of[name]
    assert groups["domain", "web"]["documents"] == groups["source", "news"]["documents"]
    assert groups["snapshot", "new"]["documents"] == groups["source", "news"]["documents"]
    total = groups["all", "all"]
    assert total["documents"]["all"] == sum(documents_of.values())
    for by in ("source", "domain", "length", "register", "snapshot"):
        own = [one for (kind, _), one in groups.items() if kind == by]
        missing = 1 if by == "register" else 0  # the text of one document is withheld
        assert sum(one["documents"]["all"] for one in own) == total["documents"]["all"] - missing
        if not missing:
            assert sum(one["bytes"]["kept"] for one in own) == total["bytes"]["kept"]


def test_a_group_that_loses_far_more_than_others_gives_a_warning(bias):
    """Its interval is below half of the overall share; no other group has a warning."""
    result = bias("--step", "judge", "--by", "source,register")
    warnings = [line for line in result.err.splitlines() if "less than half" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "source news: 2.5% of 120 documents kept (95%: 0.8% to 7.2%), less than half of the overall 32."
    )
    assert result.code == 0


def test_results_do_not_depend_on_part_size(bias, tmp_path):
    """Another part size in another store gives the same numbers, the same sample and the same edge."""
    options = ("--step", "judge", "--texts", "50", "--edge", "5", "--json")
    assert bias(*options).out == bias(*options, recipe=make(tmp_path, "1MB").recipe).out


def test_the_sample_size_is_stated(bias):
    """The command says how many texts the registers come from; without registers it reads no text."""
    result = bias("--step", "judge", "--texts", "50")
    assert "322 documents of notes, news reached judge; register: from 50 texts, a sample by hash" in result.err
    assert "register" not in bias("--step", "judge", "--by", "source").err


def test_term_lists_make_groups(bias, judged):
    """A group has the documents with two different terms of a list; unused lists and wrong folders are reported."""
    terms = judged.folder / "terms"
    result = bias("--step", "judge", "--by", "source", "--terms", terms, "--json")
    assert result.groups["terms", "platt"]["documents"]["all"] == 50
    assert result.groups["terms", "falconry"]["documents"]["all"] == 0
    assert "No text in the sample has enough terms of: falconry." in result.err
    too_few = bias("--step", "judge", "--terms", terms, "--min-terms", "3")
    assert (too_few.code, "The list falconry in --terms" in too_few.err, "has 2 terms" in too_few.err) == (
        2,
        True,
        True,
    )
    wrong_folder = bias("--step", "judge", "--terms", judged.folder / "tems")
    assert (wrong_folder.code, f"Did you mean {terms}?" in wrong_folder.err) == (2, True)
    assert "no file that ends with .txt" in bias("--step", "judge", "--terms", judged.store / "runs").err


def test_the_edge_has_the_documents_nearest_to_the_cutoff(bias):
    """The edge lists both sides, nearest first, with score, reason, URL and excerpt; withheld documents
    are left out.
    """
    edge = bias("--step", "judge", "--edge", "4", "--json").edge
    scores = sorted(
        float(entry["text"].split()[0])
        for _, entry in documents()
        if entry["text"][0].isdigit() and entry["text"] != SECRET
    )
    above, below = (
        [score for score in scores if score >= 0.5][:4],
        [score for score in reversed(scores) if score < 0.5][:4],
    )
    assert [entry["scores"]["judge.score"] for entry in edge if entry["edge"] == "kept"] == above
    assert [entry["scores"]["judge.score"] for entry in edge if entry["edge"] == "removed"] == below
    assert {entry["reason"] for entry in edge if entry["edge"] == "removed"} == {"low_quality"}
    assert all(entry["url"].startswith("https://h") and "note <b>" in entry["excerpt"] for entry in edge)


def test_a_step_without_a_score_samples_both_sides(bias, everything):
    """The command says that they are sampled; --score can order them by another column."""
    result = bias("--step", "heuristics", "--edge", "1", "--json", recipe=everything.project.recipe)
    assert [entry["edge"] for entry in result.edge] == ["kept", "removed"]
    assert "both sides sampled by hash" in result.err
    ordered = bias(
        "--step", "heuristics", "--edge", "2", "--score", "signals.words", "--json", recipe=everything.project.recipe
    )
    assert [*ordered.edge[0]["scores"]] == ["signals.words"]


def test_a_withheld_document_is_counted_and_never_shown(bias, tmp_path):
    """Neither the table, nor JSON, nor the page shows its text or its host."""
    path = tmp_path / "bias.html"
    results = [bias("--step", "judge", "--edge", "300", *more) for more in ((), ("--json",), ("--html", path))]
    printed = path.read_text() + "".join(result.out + result.err for result in results)
    assert "unspeakable" not in printed
    assert "hidden.example" not in printed
    assert "1 document is withheld" in results[0].err


def test_the_page_has_only_its_own_markup(bias, tmp_path):
    """Texts are escaped, nothing is fetched, no script runs, and every document is there."""
    path = tmp_path / "bias.html"
    result = bias("--step", "judge", "--edge", "3", "--html", path)
    assert re.search(rf"{re.escape(str(path))}: \d+ groups, 6 documents", result.out.replace("\n", " "))
    page = path.read_text()
    assert set(re.findall(r"</?([a-z0-9!]+)", page)) <= {
        *("!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "th", "td"),
        *("article", "blockquote", "figure", "div", "svg", "g", "line", "path", "text"),
    }
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    assert page.count("<article>") == 6
    assert 'class="loud">source news' in page
    assert bias("--step", "judge", "--html", tmp_path).code == 2


def test_escape_sequences_in_a_text_are_shown_not_executed(bias):
    """The terminal output has them in escaped form."""
    result = bias("--step", "judge", "--edge", "2")
    assert "\\x1b[m" in result.out
    assert "\x1b" not in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Missing option '--step'"),
        (("--step", "jugde"), "has no such step, so there is nothing to compare. Did you mean judge?"),
        (("--step", "idle"), "--step idle removed no document"),
        (("--step", "judge", "--by", "langauge"), "Did you mean language?"),
        (("--step", "judge", "--score", "judge.scor"), "Did you mean judge.score?"),
        (("--step", "judge", "--score", "judge.word", "--edge", "1"), "has string, not numbers"),
    ],
)
def test_a_mistake_is_one_message(bias, words, message):
    """The message suggests the nearest valid name."""
    result = bias(*words)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_recipe_that_has_not_run_is_refused(bias, judged, tmp_path):
    """The message says that the run has not finished."""
    result = bias("--step", "judge", "--store", tmp_path / "empty")
    assert result.code == 2
    assert "has not finished with the current recipe" in result.err


def test_a_run_is_compared_without_its_recipe(bias, judged):
    """The store alone knows the domain of each source."""
    options = ("--step", "judge", "--json")
    assert bias(*options, recipe=f"{judged.store}@judged").groups == bias(*options).groups


def test_unknown_kinds_of_groups_are_listed(bias):
    """The message names the step or setting that would provide them."""
    assert "Not known for these documents: language (language: add the step `language`)." in bias("--step", "judge").err
