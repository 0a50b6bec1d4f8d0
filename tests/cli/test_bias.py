"""gristmill bias: which groups a step keeps and removes, with intervals, and documents at the edge of its cutoff."""

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
from gristmill.stages.contract import StageConfig

VERSION = 1
READS = ("text",)
SCHEMA = pa.schema([("score", pa.float64()), ("word", pa.string()), ("drop", pa.string())])

class Config(StageConfig): ...

def apply(batch, config):
    scores = [float(text.split()[0]) if text and text[0].isdigit() else None for text in batch["text"].to_pylist()]
    drops = ["low_quality" if score is not None and score < 0.5 else None for score in scores]
    columns = [pa.array(scores, pa.float64()), pa.array(["x"] * len(scores)), pa.array(drops, pa.string())]
    return pa.record_batch(columns, schema=SCHEMA)
'''
IDLE = JUDGE.replace('"low_quality" if score is not None and score < 0.5 else None', "None")
SECRET = "0.499999 an unspeakable text at the very edge of the cutoff"


def documents():
    """Notes of many hosts, half of them kept; news of many hosts, nearly all removed; some speak a dialect."""
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
    made = Project(folder)
    for source in ("notes", "news"):
        lines = [json.dumps(one) for name, one in documents() if name == source]
        (folder / f"{source}.jsonl").write_text("\n".join(lines))
    (folder / "judge.py").write_text(JUDGE)
    (folder / "idle.py").write_text(IDLE)
    (folder / "hashes.txt").write_text(hashlib.sha256(SECRET.encode()).hexdigest())
    (folder / "terms").mkdir()
    (folder / "terms" / "platt.txt").write_text("# Low German\nhuus\ndiek\nan'n diek\n")
    (folder / "terms" / "falconry.txt").write_text("jesses\nlure\n")
    made.recipe.write_text(RECIPE.format(part=part))
    made.run()
    return made


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return make(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def ask(judged, say):
    def asked(*words, recipe=None):
        result = say("bias", recipe or judged.recipe, *words)
        found = [json.loads(line) for line in result.out.splitlines()] if "--json" in words and not result.code else []
        groups = {(one["by"], one["group"]): one for one in found if "by" in one}
        return SimpleNamespace(groups=groups, edge=[one for one in found if "edge" in one], **vars(result))

    return asked


def kept_of(name, one):
    return not (one["text"][0].isdigit() and float(one["text"].split()[0]) < 0.5)


def test_counts_are_those_of_a_plain_count(ask):
    """Documents and bytes of every source, domain and snapshot; groups of a kind make up the whole."""
    groups = ask("--step", "judge", "--json").groups
    documents_of, kept, sizes = Counter(), Counter(), Counter()
    for name, one in documents():
        documents_of[name] += 1
        kept[name] += kept_of(name, one)
        sizes[name] += len(one["text"].strip().encode())
    for name in ("notes", "news"):
        own = groups["source", name]
        assert (own["documents"]["all"], own["documents"]["kept"]) == (documents_of[name], kept[name])
        assert own["documents"]["share"] == kept[name] / documents_of[name]
    assert groups["domain", "web"]["documents"] == groups["source", "news"]["documents"]
    assert groups["snapshot", "new"]["documents"] == groups["source", "news"]["documents"]
    whole = groups["all", "all"]
    assert whole["documents"]["all"] == sum(documents_of.values())
    for by in ("source", "domain", "length", "register", "snapshot"):
        own = [one for (kind, _), one in groups.items() if kind == by]
        missing = 1 if by == "register" else 0  # the text of one is withheld
        assert sum(one["documents"]["all"] for one in own) == whole["documents"]["all"] - missing
        if not missing:
            assert sum(one["bytes"]["kept"] for one in own) == whole["bytes"]["kept"]


def test_a_group_that_loses_far_more_than_others_gives_a_warning(ask):
    """Its interval is below half of the overall share; there is no warning about the others."""
    result = ask("--step", "judge", "--by", "source,register")
    loud = [line for line in result.err.splitlines() if "less than half" in line]
    assert len(loud) == 1
    assert loud[0].startswith(
        "source news: 2.5% of 120 documents kept (95%: 0.8% to 7.2%), less than half of the overall 32."
    )
    assert result.code == 0


def test_answers_do_not_depend_on_parts(ask, tmp_path):
    """Parts of another size in another store: the same numbers, the same sample, the same edge."""
    words = ("--step", "judge", "--texts", "50", "--edge", "5", "--json")
    assert ask(*words).out == ask(*words, recipe=make(tmp_path, "1MB").recipe).out


def test_the_sample_is_stated(ask):
    """Of how many texts registers are; without them no text is looked at."""
    result = ask("--step", "judge", "--texts", "50")
    assert "322 documents of notes, news reached judge; register: from 50 texts, a sample by hash" in result.err
    assert "register" not in ask("--step", "judge", "--by", "source").err


def test_terms_make_groups(ask, judged):
    """Those with two different terms of a list; a list that no text has is told, and so is a wrong folder."""
    terms = judged.folder / "terms"
    result = ask("--step", "judge", "--by", "source", "--terms", terms, "--json")
    assert result.groups["terms", "platt"]["documents"]["all"] == 50
    assert result.groups["terms", "falconry"]["documents"]["all"] == 0
    assert "No text in the sample has enough terms of: falconry." in result.err
    few = ask("--step", "judge", "--terms", terms, "--min-terms", "3")
    assert (few.code, "The list falconry in --terms" in few.err, "has 2 terms" in few.err) == (2, True, True)
    gone = ask("--step", "judge", "--terms", judged.folder / "tems")
    assert (gone.code, f"Did you mean {terms}?" in gone.err) == (2, True)
    assert "no file that ends with .txt" in ask("--step", "judge", "--terms", judged.store / "runs").err


def test_the_edge_is_what_lies_nearest_to_the_cutoff(ask):
    """On both sides, nearest first, with what a reader wants to know; one that is withheld is not there."""
    edge = ask("--step", "judge", "--edge", "4", "--json").edge
    scores = sorted(
        float(one["text"].split()[0]) for _, one in documents() if one["text"][0].isdigit() and one["text"] != SECRET
    )
    above, below = [x for x in scores if x >= 0.5][:4], [x for x in reversed(scores) if x < 0.5][:4]
    assert [one["scores"]["judge.score"] for one in edge if one["edge"] == "kept"] == above
    assert [one["scores"]["judge.score"] for one in edge if one["edge"] == "removed"] == below
    assert {one["reason"] for one in edge if one["edge"] == "removed"} == {"low_quality"}
    assert all(one["url"].startswith("https://h") and "note <b>" in one["excerpt"] for one in edge)


def test_a_step_without_a_score_shows_some_of_both_sides(ask, everything):
    """And says that they are sampled; another column may order them."""
    result = ask("--step", "heuristics", "--edge", "1", "--json", recipe=everything.project.recipe)
    assert [one["edge"] for one in result.edge] == ["kept", "removed"]
    assert "both sides sampled by hash" in result.err
    by = ask(
        "--step", "heuristics", "--edge", "2", "--score", "signals.words", "--json", recipe=everything.project.recipe
    )
    assert [*by.edge[0]["scores"]] == ["signals.words"]


def test_what_is_withheld_is_counted_and_never_shown(ask, tmp_path):
    """In no form."""
    path = tmp_path / "bias.html"
    result = [ask("--step", "judge", "--edge", "300", *more) for more in ((), ("--json",), ("--html", path))]
    said = path.read_text() + "".join(one.out + one.err for one in result)
    assert "unspeakable" not in said
    assert "hidden.example" not in said
    assert "1 document is withheld" in result[0].err


def test_the_page_has_no_markup_but_its_own(ask, tmp_path):
    """Texts are escaped, nothing is fetched and no script runs; every group and every document is there."""
    path = tmp_path / "bias.html"
    result = ask("--step", "judge", "--edge", "3", "--html", path)
    assert re.search(rf"{re.escape(str(path))}: \d+ groups, 6 documents", result.out.replace("\n", " "))
    page = path.read_text()
    assert set(re.findall(r"</?([a-z0-9!]+)", page)) <= {
        *("!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "th", "td"),
        *("article", "blockquote", "svg", "g", "line", "circle", "rect", "text"),
    }
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    assert "default-src 'none'" in page
    assert page.count("<article>") == 6
    assert 'class="loud">source news' in page
    assert ask("--step", "judge", "--html", tmp_path).code == 2


def test_escape_sequences_of_a_text_are_shown_and_not_obeyed(ask):
    """On a terminal too."""
    result = ask("--step", "judge", "--edge", "2")
    assert "\\x1b[m" in result.out
    assert "\x1b" not in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "gristmill bias requires --step"),
        (("--step", "jugde"), "has no such step, so there is nothing to compare. Did you mean judge?"),
        (("--step", "idle"), "--step idle removed no document"),
        (("--step", "judge", "--by", "langauge"), "Did you mean language?"),
        (("--step", "judge", "--score", "judge.scor"), "Did you mean judge.score?"),
        (("--step", "judge", "--score", "judge.word", "--edge", "1"), "has string, not numbers"),
    ],
)
def test_a_mistake_is_one_message(ask, words, message):
    """One message, with the nearest name."""
    result = ask(*words)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_recipe_that_has_not_run_is_refused(ask, judged, tmp_path):
    """With the command that runs it."""
    result = ask("--step", "judge", "--store", tmp_path / "empty")
    assert result.code == 2
    assert "has not finished with the current recipe" in result.err


def test_a_run_is_compared_without_its_recipe(ask, judged):
    """The store alone knows the domains of sources."""
    words = ("--step", "judge", "--json")
    assert ask(*words, recipe=f"{judged.store}@judged").groups == ask(*words).groups


def test_kinds_of_groups_that_are_unknown_are_named(ask):
    """With the step or setting that would provide them."""
    assert "Not known for these documents: language (language: add the step `language`)." in ask("--step", "judge").err
