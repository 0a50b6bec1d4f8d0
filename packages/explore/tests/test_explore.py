"""gristmill explore: who may read its pages, what they show, and that nothing in a document can run."""

import asyncio
import contextlib
import html
import json
import os
import re
import shutil
import socket
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import yaml
from conftest import Project
from explored import ORIGIN, PORT, TOKEN, explored, write_hostile
from starlette.testclient import TestClient

from cli.test_withheld import TAKEN, check, hidden, taken  # noqa: F401, fixtures
from gristmill.errors import UserError
from gristmill.query.documents.columns import ColumnReader
from gristmill.query.documents.histograms import find_measures
from gristmill.query.removal.changes import number_settings, parse_changes
from gristmill.query.removal.whatif import Replay, what_if
from gristmill.query.versions.diff import compare_documents
from gristmill.stages.quality.classifier import Config, fit
from gristmill.stages.shared.rule import formula
from gristmill.store.store import CorruptPart
from gristmill_explore import explorer as explorer_module
from gristmill_explore.filters import DocumentFilter
from gristmill_explore.labels import LabelFile, wilson
from gristmill_explore.security import HEADERS
from gristmill_explore.serving import serve

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal or a browser may obey."""


def client_of(site, status=200):
    client = TestClient(site.app, base_url=ORIGIN)
    assert client.get(f"/?token={TOKEN}").status_code == status
    return client


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    return tmp_path_factory.mktemp("labels") / "labels.jsonl"


@pytest.fixture(scope="module")
def site(everything, labels):
    """The explorer of the corpus with every feature."""
    with explored(everything.project, labels) as found:
        yield SimpleNamespace(**vars(found), client=client_of(found))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The explorer of hostile documents, next to an earlier version."""
    project = write_hostile(Project(tmp_path_factory.mktemp("hostile")))
    with explored(project, project.folder / "labels.jsonl", "v1") as found:
        yield SimpleNamespace(**vars(found), client=client_of(found))


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [(tag, name, value or "") for name, value in [("", ""), *attributes]]


OWN_SCRIPTS = {"/static/htmx.min.js", "/static/explore.js"}
TRIGGERS = {"submit, input changed delay:200ms", "input delay:60ms, submit"}
TRIGGERS |= {"load", "load delay:1s"}


def check_harmless(text):
    """Only our tags and scripts, no handlers, no addresses elsewhere, no characters that act."""
    assert not FORBIDDEN.search(text)
    for tag, name, value in Tags(text).found:
        assert tag not in ("img", "iframe", "object", "embed", "style", "base", "audio", "video")
        assert not name.startswith("on")
        assert name != "style"
        if name in ("href", "src", "action", "hx-get", "hx-post"):
            assert re.match(r"/(?!/)|\?|#|data:,$", value), value
        if (tag, name) == ("script", "src"):
            assert value in OWN_SCRIPTS
        if name == "hx-trigger":
            assert value in TRIGGERS
    assert len(re.findall("<script", text)) in (0, 2)
    assert "54439" not in text, "a template in a document was run"


def pages_of(site):
    """The addresses of every page, with filters that have hostile values."""
    reasons = ("too_few_words", "<script>alert(1)</script>")
    yield from ("/", "/histograms", "/whatif", "/labels", "/?text=alert", "/?url=javascript", "/?order=shuffled")
    yield from (f"/?{urlencode({name: '<b onclick=x>'})}" for name in ("source", "step", "reason", "language", "text"))
    yield from (f"/?{urlencode({'reason': reason})}" for reason in reasons)
    for one in site.explorer.find(DocumentFilter(), "").documents[::5]:
        yield f"/document/{one.number}?{urlencode({'text': '><script>'})}"
    yield f"/whatif?{urlencode({'setting': 'all/heuristics.gopher_quality.min_words', 'value': 40})}"


def test_nothing_in_a_document_can_run_or_leave_its_place(hostile):
    """This holds for every page, as a whole and for htmx, also for labels and faults."""
    faults = ("/nowhere/<script>", "/?score=<script>", "/?low=<b>&score=words")
    for address in (*pages_of(hostile), "/versions", "/?change=added", *faults):
        for headers in ({}, {"hx-request": "true"}) if "=" not in address else ({},):
            answer = hostile.client.get(address, headers=headers)
            assert answer.status_code in (200, 400, 404), address
            check_harmless(answer.text)
            assert HEADERS.items() <= answer.headers.items()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile.client.get("/document/0").text
    steering = "\0\x1b\u202e"
    assert not set(steering) & set(hostile.client.get(f"/?{urlencode({'url': steering, 'language': steering})}").text)


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({"host": "evil.example"}, "/"),
        ({"host": f"evil.example:{PORT}"}, "/"),
        ({"host": "127.0.0.1:1"}, "/"),
        ({"origin": "http://evil.example"}, "/"),
        ({"origin": "null"}, "/"),
        ({"origin": ORIGIN.replace("http", "https")}, "/"),
        ({"sec-fetch-site": "cross-site"}, "/"),
        ({"sec-fetch-site": "same-site"}, "/document/0"),
        ({"cookie": ""}, "/"),
        ({"cookie": f"gristmill-{PORT}=other"}, "/static/explore.js"),
        ({"host": f"evil.example:{PORT}"}, f"/?token={TOKEN}"),
        ({"sec-fetch-site": "cross-site"}, f"/?token={TOKEN}"),
        ({}, "/?token=other"),
    ],
)
def test_a_foreign_request_is_refused(site, headers, address):
    """A wrong Host, a foreign Origin or site, or a missing token is answered 403, without a word of the corpus."""
    answer = site.client.get(address, headers=headers, follow_redirects=False)
    assert (answer.status_code, answer.text[:9]) == (403, "Refused. ")
    assert HEADERS.items() <= answer.headers.items()
    assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_cookie_that_no_script_reads(site):
    """It leaves the address at once; a request that changes something also needs our Origin."""
    with TestClient(site.app, base_url=ORIGIN, follow_redirects=False) as fresh:
        answer = fresh.get(f"/labels?token={TOKEN}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/labels")
        assert {"httponly", "samesite=strict"} <= {*answer.headers["set-cookie"].lower().split("; ")}
        assert fresh.post("/document/0/label", content="label=good").status_code == 403
        assert not site.labels.exists()


def everything_of(view):
    """Every document as the columns of other commands have it."""
    names = ["doc_id", "source", "language", "kept", "step", "reason", "url", "text", "signals.words", "signals.chars"]
    return [row for batch in ColumnReader(view, names, kept=None).batches() for row in batch.to_pylist()]


FILTERS = {
    "source=crawl": lambda row: row["source"] == "crawl",
    "verdict=kept": lambda row: row["kept"],
    "verdict=removed&source=notes": lambda row: not row["kept"] and row["source"] == "notes",
    "step=web/keep_language": lambda row: row["step"] == "web/keep_language",
    "reason=near_duplicate": lambda row: row["reason"] == "near_duplicate",
    "language=de": lambda row: row["language"] == "de",
    "language=(none)": lambda row: row["language"] is None,
    "score=words&low=20&high=90": lambda row: row["signals.words"] is not None and 20 <= row["signals.words"] <= 90,
    "score=words&high=20": lambda row: row["signals.words"] is not None and row["signals.words"] <= 20,
    "score=chars&low=200": lambda row: row["signals.chars"] is not None and row["signals.chars"] >= 200,
    "url=MILL.example/1": lambda row: "mill.example/1" in (row["url"] or ""),
    "text=STONE%20for": lambda row: "stone for" in (row["text"] or "").lower(),
    "text=note&verdict=kept&order=shuffled": lambda row: row["kept"] and "note" in row["text"].lower(),
    "order=shuffled": lambda row: True,
}


@pytest.mark.parametrize("query", FILTERS)
def test_a_filter_lists_what_a_loop_over_all_documents_finds(site, query, monkeypatch):
    """Page by page, no document is missing or repeated, however little a text search reads at a time."""
    monkeypatch.setattr(explorer_module, "PAGE", 3)
    monkeypatch.setattr(explorer_module, "SEARCH_BYTES", 0)
    wanted = DocumentFilter.of(dict(part.split("=") for part in query.replace("%20", " ").split("&")))
    found, after = [], ""
    while after is not None:
        page = site.explorer.find(wanted, after)
        found += [one.doc_id for one in page.documents]
        after = page.after
    expected = [row["doc_id"] for row in everything_of(site.run) if FILTERS[query](row)]
    rank = {one.doc_id: one.rank for one in site.explorer.index.documents("true", [], "number", 10**6)}
    assert found == (sorted(expected, key=rank.get) if wanted.is_shuffled and not wanted.text else expected)
    assert expected


def test_more_documents_are_also_a_page(site, monkeypatch):
    """The link "More" works in a new tab, too: it says how many documents match in all."""
    monkeypatch.setattr(explorer_module, "PAGE", 3)
    (address,) = re.findall(r'href="(/\?after=\d+)"', site.client.get("/").text)
    assert f"{len(everything_of(site.run))} documents" in site.client.get(address).text


def test_every_number_of_a_histogram_can_be_filtered(site):
    """Under the same name, in the report and here; raw counts are there next to the ratios that rules compare."""
    titles = {one.title: one.value for one in find_measures(site.run, every_number=True)}
    assert titles.items() <= {title: one.value for title, one in site.explorer.index.measures.items()}.items()
    used = {name for value in titles.values() for name in formula(value).columns}
    assert used <= {one.value for one in site.explorer.index.measures.values()}
    row = r'n">(\d+)</td><td class="n">(\d+)</td><td><a href="(/\?[^"]+)"'
    for title in [*titles][:40:8]:
        page = site.client.get(f"/histograms?{urlencode({'score': title})}").text
        for kept, removed, address in re.findall(row, page):
            listed = site.client.get(html.unescape(address)).text
            assert f'<p role="status">{int(kept) + int(removed)} documents' in listed


def test_the_slider_moves_thresholds_only(site):
    """A seed is not one, nor is a number that a stage before the step uses: `whatif` would refuse it."""
    settings = number_settings(site.mill)
    assert "all/heuristics.gopher_quality.min_words" in settings
    assert not [name for name in settings if re.search(r"keep_quality\.(seed|buckets)$|decontaminate\.", name)]
    for setting, value in settings.items():
        for other in (value + 1, value / 2):
            with contextlib.suppress(UserError):
                parse_changes(site.mill, [f"{setting}={other}"])
                break
        else:
            raise AssertionError(setting)


@pytest.mark.parametrize("value", [1, 12, 13, 30, 50, 51, 80, 1000])
def test_the_slider_shows_the_numbers_of_whatif(site, value):
    """The same documents come and go, for values around the recipe's and the published one; all of them are listed."""
    setting = "all/heuristics.gopher_quality.min_words"
    (effect,) = what_if(site.mill, site.run, [f"{setting}={value}"])
    address = f"/whatif?{urlencode({'setting': setting, 'value': value})}"
    text = site.client.get(address, headers={"hx-request": "true"}).text
    shown = [int(number.replace(",", "")) for number in re.findall(r'class="n[ \w]*">[+−]?([\d,]+)</td>', text)]
    come, go = effect.come.documents, effect.go.documents
    assert shown[:4] == [effect.corpus, come, go, effect.corpus + come - go]
    (entry,) = re.findall(r'<pre id="yaml">(.*?)</pre>', text, re.S)
    (step,) = yaml.safe_load(html.unescape(entry))
    written = next(one for one in yaml.safe_load(site.mill.recipe.text)["steps"]["all"] if "heuristics" in one)
    written["heuristics"].setdefault("gopher_quality", {})["min_words"] = value
    assert step == written, "the other settings of the step stay"
    for side, number in (("come", come), ("go", go)):
        address = f"/whatif/documents?{urlencode({'setting': setting, 'value': value, 'side': side})}"
        assert f"{number} documents" in site.client.get(address).text


def test_a_rule_alone_decides_as_the_whole_step_does(site):
    """The slider evaluates one rule over the documents that the others pass. The effect is that of the whole step, for
    any setting.
    """
    for setting, value in [*number_settings(site.mill).items()][::5]:
        changes = []
        for other in (value + 1, value / 2):
            with contextlib.suppress(UserError):
                changes.append(parse_changes(site.mill, [f"{setting}={other}"])[0])
        replay = Replay(site.mill, site.run, changes[0])
        for change in changes:
            found, whole = replay.effect(change), Replay(site.mill, site.run, change, keeps=False).effect(change)
            assert (found.come, found.go, found.corpus) == (whole.come, whole.go, whole.corpus), (
                setting,
                change.fields,
            )


def test_the_histogram_of_a_setting_has_the_documents_of_its_route(taken, tmp_path):  # noqa: F811
    """Another route may measure the same; a bar leads to the documents that it counts."""
    rule = "heuristics: {gopher_quality: {min_words: 12, min_stop_words: 1, min_letter_words_share: 0.1}}"
    source = "kind: text, read: {format: jsonl, paths: [in.jsonl]"
    routes = f"sources:\n  one: {{{source}}}}}\n  two: {{{source}, part_bytes: 1MiB}}}}\n"
    routes += f"steps:\n  one: [signals, {{{rule}}}]\n  two: [signals, {{{rule}}}]\n"
    taken.recipe.write_text(f"recipe: routes\nseed: 5\nstore: ./store\n{routes}")
    taken.run()
    with explored(taken, tmp_path / "labels.jsonl") as found:
        client = client_of(found)
        page = client.get("/whatif?setting=two/heuristics.gopher_quality.min_words").text
        rows = re.findall(r'<td class="n">(\d+)</td><td class="n">(\d+)</td><td><a href="/\?([^"]+)"', page)
        outside = int(re.search(r"(\d+) documents are outside", page)[1])
        assert sum(int(kept) + int(removed) for kept, removed, _ in rows) + outside == 9
        kept, removed, address = rows[0]
        listed = client.get(f"/?{html.unescape(address)}").text
        assert f'<p role="status">{int(kept) + int(removed)} documents' in listed


def test_the_slider_says_that_other_verdicts_may_change(site, monkeypatch):
    """`whatif` prints the same: a later step may rank all documents."""
    effect_of = Replay.effect
    monkeypatch.setattr(Replay, "effect", lambda *given: replace(effect_of(*given), shifting=("all/keep_quality",)))
    for value, is_said in (("1000", True), ("", False)):
        setting = {"setting": "all/heuristics.gopher_quality.min_words", "value": value}
        text = site.client.get(f"/whatif?{urlencode(setting)}").text
        assert ("Other verdicts may change, too: all/keep_quality depend on" in text) is is_said


def test_a_threshold_that_is_no_number_is_one_message(site):
    """So is a setting that does not exist."""
    for setting, value in (("all/heuristics.gopher_quality.min_words", "many"), ("nothing.here", "1")):
        answer = site.client.get(f"/whatif?{urlencode({'setting': setting, 'value': value})}")
        assert (answer.status_code, answer.text.count('role="alert"')) == (400, 1)


def test_bars_of_a_histogram_lead_to_their_documents(site):
    """The numbers of a bar are those of its list, and all bars have all documents with a value."""
    text = site.client.get("/histograms?score=words").text
    rows = re.findall(r'<td class="n">(\d+)</td><td class="n">(\d+)</td><td><a href="/\?([^"]+)"', text)
    assert rows
    for kept, removed, address in rows:
        wanted = f"/?{address.replace('&amp;', '&')}"
        for verdict, number in (("kept", kept), ("removed", removed)):
            assert f'\n<p role="status">{number} documents' in site.client.get(f"{wanted}&verdict={verdict}").text
    outside = re.search(r"(\d+) documents are outside", text)
    total = sum(int(kept) + int(removed) for kept, removed, _ in rows) + (int(outside[1]) if outside else 0)
    assert total == sum(row["signals.words"] is not None for row in everything_of(site.run))


def number_of(site, **fields):
    (found,) = site.explorer.find(DocumentFilter(**fields), "").documents
    return found.number


def test_a_document_shows_cuts_evidence_and_its_cluster(site):
    """Cut passages are struck through, matching words of an eval item and differing words of a copy are marked."""
    cut = site.client.get(f"/document/{number_of(site, url='mill.example/7')}").text
    assert re.search(r"<del>[^<]*stands below every page[^<]*</del><small class=\"by\">all/line_dedup</small>", cut)
    flagged = site.client.get(f"/document/{number_of(site, url='mill.example/asked')}").text
    assert re.search(r"<h2>Contamination</h2>.*<mark>How many sacks of rye", flagged, re.S)
    copy = site.client.get(f"/document/{number_of(site, reason='near_duplicate')}").text
    assert "Cluster of 2 documents" in copy
    assert re.search(r"<del>[^<]*6[^<]*</del>.*<ins>[^<]*5[^<]*</ins>", copy, re.S)


def post(site, number, **form):
    return site.client.post(
        f"/document/{number}/label", content=urlencode(form), headers={"origin": ORIGIN, "hx-request": "true"}
    )


def test_labels_are_in_the_file_at_once_and_change_the_precision(hostile):
    """A new label replaces the old one, removing it removes its line, and the next start reads the file."""
    dropped = [one.number for one in hostile.explorer.find(DocumentFilter(reason="too_few_words"), "").documents][:3]
    assert post(hostile, dropped[0], label="bad", note="<b>too short</b>").status_code == 200
    assert post(hostile, dropped[1], label="good").status_code == 200
    answer = post(hostile, dropped[2], label="bad")
    low, high = wilson(2, 3)
    assert f"<b>67%</b> ({low:.0%} to {high:.0%}, 95% interval)" in answer.text
    check_harmless(answer.text)
    post(hostile, dropped[1], label="bad", note="after all")
    post(hostile, dropped[2], label="none")
    lines = [json.loads(line) for line in hostile.labels.read_text().splitlines()]
    assert [(line["score"], line["note"]) for line in lines] == [(0, "<b>too short</b>"), (0, "after all")]
    assert [one["doc_id"] for one in LabelFile(hostile.labels)] == [line["doc_id"] for line in lines]
    check_harmless(hostile.client.get("/labels").text)
    assert "2 documents" in hostile.client.get("/?label=bad").text
    assert post(hostile, dropped[0], label="great").status_code == 400
    assert post(hostile, dropped[0], label="good", note="x" * 100_000).status_code == 413


def test_a_file_with_something_else_is_left_alone(tmp_path):
    """A label file is never overwritten by mistake."""
    (tmp_path / "notes.txt").write_text('{"text": "mine"}\n')
    with pytest.raises(UserError, match=r"notes\.txt: line 1 is not a label"):
        LabelFile(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    "content", [b"not json\n", b'{"text": "torn', b"\xff\xfe\n", b'{"doc_id": "x", "score": 5, "note": ""}']
)
def test_a_damaged_label_file_is_one_message(tmp_path, content):
    """So is a folder, or a pipe, which nobody writes to."""
    (tmp_path / "labels.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=r"line 1 is not a label .* Remove the line, or name another file"):
        LabelFile(tmp_path / "labels.jsonl")
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path, "a folder"), (tmp_path / "pipe", "a pipe")):
        with pytest.raises(UserError, match=f"is {kind}, so it cannot have labels. Name a file"):
            LabelFile(path)


def test_a_label_never_continues_a_torn_line(site, tmp_path):
    """It begins on a line that has nothing else, so that it can be read."""
    kept = site.explorer.rows(site.explorer.find(DocumentFilter(verdict="kept"), "").documents[:2])
    file = LabelFile(tmp_path / "labels.jsonl")
    file.set(kept[0], 5, "")
    with file.path.open("a") as torn:
        torn.write('{"text": "torn')
    file.set(kept[1], 5, "")
    first, torn_line, second = file.path.read_text().splitlines()
    assert torn_line == '{"text": "torn'
    assert [json.loads(line)["doc_id"] for line in (first, second)] == [row.fields["doc_id"].hex() for row in kept]


def test_the_page_names_the_labels_as_the_recipe_has_to(hostile, site):
    """The path is relative to the recipe's folder, wherever the file is."""
    found = []
    for one in (hostile, site):
        (block,) = re.findall("<pre>(.*?)</pre>", one.client.get("/labels").text, re.S)
        found.append(yaml.safe_load(html.unescape(block))["quality"]["classifiers"]["mine"]["labels"][0]["file"])
    assert found[0] == "labels.jsonl"
    assert (Path(site.mill.recipe.path).parent / found[1]).resolve() == site.labels.resolve()


def test_a_classifier_is_trained_on_the_labels(site, tmp_path):
    """The file needs no settings: the default scale of `labels` is that of the file."""
    kept = site.explorer.find(DocumentFilter(verdict="kept", source="crawl"), "").documents
    file = LabelFile(tmp_path / "labels.jsonl")
    for place, row in enumerate(site.explorer.rows(kept)):
        file.set(row, 5 if place % 2 else 0, "")
    config = Config(name="mine", labels=[{"file": str(file.path)}], buckets=1000, held_out_share=0)
    counts = fit((), config, tmp_path / "model.bin")
    texts = {side: found["documents"] for side, found in counts["texts"]["training"].items()}
    assert texts == {"high": len(kept) // 2, "low": len(kept) - len(kept) // 2}


def test_the_interval_is_wilsons():
    """Values from Wilson's formula with z = 1.96; no labels leave everything open."""
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 5) == pytest.approx((0, 0.4345), abs=1e-4)
    assert wilson(0, 0) == (0, 1)


def test_withheld_documents_stay_withheld(hidden, tmp_path):  # noqa: F811
    """No page has their text, URL or title; no search or filter by content finds them; they cannot be labelled."""
    with explored(hidden.project, tmp_path / "labels.jsonl") as found:
        assert [*found.explorer.index.hidden.values()] == ["hashes"] * 3
        client = client_of(found)
        removed = found.explorer.find(DocumentFilter(verdict="removed"), "").documents
        assert len(removed) == 3
        for one in removed:
            page = client.get(f"/document/{one.number}").text
            assert "are withheld (hashes)" in page
            check(page, client.get(f"/document/{one.number}?beside=0").text)
            answer = client.post(f"/document/{one.number}/label", content="label=bad", headers={"origin": ORIGIN})
            assert answer.status_code == 400
        check(*(client.get(f"/?{order}").text for order in ("", "order=shuffled")), client.get("/histograms").text)
        for query in ("text=granary", "text=address", "url=example/", "url=never-shown"):
            answer = found.explorer.find(DocumentFilter.of(dict([query.split("=")])), "")
            assert not {one.number for one in answer.documents} & {one.number for one in removed}
        assert not (tmp_path / "labels.jsonl").exists()


@pytest.mark.parametrize("against", ["open", "taken"])
def test_taken_down_documents_are_withheld(taken, tmp_path, against):  # noqa: F811
    """This holds on every page, also for their dropped copies, for old labels, and if only the other version has taken
    them down. An old label can be removed; a new one is refused.
    """
    taken.recipe.write_text(TAKEN)
    ids = [row["doc_id"] for row in everything_of(taken.mill().dry_run()) if "mill" not in (row["url"] or "")]
    assert len(ids) == 5
    taken.recipe.write_text(TAKEN if against == "taken" else f"{TAKEN}takedowns: requests.yaml")
    label = {"text": "secret", "score": 5, "url": "https://gone.example/1", "note": "a secret", "doc_id": ids[0]}
    (tmp_path / "labels.jsonl").write_text(json.dumps(label) + "\n")
    with explored(taken, tmp_path / "labels.jsonl", against) as found:
        client, setting = client_of(found), "all/heuristics.gopher_quality.min_words"
        everyone = found.explorer.find(DocumentFilter(), "").documents
        hidden = [one for one in everyone if one.doc_id in ids]
        addresses = [f"/whatif?{urlencode({'setting': setting, 'value': value})}" for value in (1, 10_000)]
        addresses += [f"/document/{one.number}" for one in everyone] + [
            "/",
            "/labels",
            "/histograms",
            "/?order=shuffled",
        ]
        addresses += ["/?label=good", "/versions", "/?change=removed"]
        for address in addresses:
            page = client.get(address)
            assert page.status_code == 200
            assert not re.search("secret|gone.example", page.text), address
        for query in ("text=secret", "url=gone", "url=secret2", "score=words", "language=en"):
            answer = found.explorer.find(DocumentFilter.of(dict([query.split("=")])), "").documents
            assert not {one.doc_id for one in answer} & {*ids}
        assert all(found.explorer.rows([one])[0].withheld == "takedown" for one in hidden)
        assert f'<a href="/document/{hidden[0].number}">{ids[0]}</a>' in client.get("/labels").text
        for label, code in (("good", 400), ("none", 200)):
            address = f"/document/{hidden[0].number}/label"
            assert client.post(address, content=f"label={label}", headers={"origin": ORIGIN}).status_code == code
        assert (tmp_path / "labels.jsonl").read_text() == ""


def test_two_versions_are_compared_document_by_document(hostile):
    """The numbers are those of `diff`; a document shows both verdicts."""
    found = compare_documents(hostile.explorer.against, hostile.run, 0)
    others = sum(found.otherwise.values())
    counts = {"added": found.came.documents, "removed": found.went.documents, "other reason": others}
    assert counts["added"] > 0
    for change, number in counts.items():
        assert hostile.explorer.count(DocumentFilter(change=change)) == number
    moved = hostile.client.get("/versions").text
    links = re.findall(r'<a href="/\?([^"]+)">(\d+)</a>', moved)
    assert sum(int(number) for _, number in links) == sum(counts.values())
    for address, number in links:
        assert f"{number} documents" in hostile.client.get(f"/?{address.replace('&amp;', '&')}").text
    came = hostile.explorer.find(DocumentFilter(change="added"), "").documents[0]
    page = hostile.client.get(f"/document/{came.number}").text
    assert re.search(r"Before:.*too_few_words.*Now:.*kept", page, re.S)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_page_whose_files_were_removed_says_so(taken, tmp_path, is_indexed, caplog):  # noqa: F811
    """`gc` may remove a version that is explored. Each page that needs its files says what to do, without a traceback.
    The others still answer.
    """
    project = Project(tmp_path)
    shutil.copytree(taken.folder, tmp_path, dirs_exist_ok=True)
    with explored(project, tmp_path / "labels.jsonl", "open", is_indexed) as found:
        for part in (tmp_path / "store" / "parts").glob("*/*"):
            part.unlink()
        if not is_indexed:
            found.explorer.index.start()
            with pytest.raises(CorruptPart):
                found.explorer.index.wait()
        client = client_of(found, 410 if is_indexed else 200)
        setting = urlencode({"setting": "all/heuristics.gopher_quality.min_words", "value": 40})
        gone = ("/", "/document/0", "/?text=mill", "/histograms?score=chars", f"/whatif?{setting}")
        for address in gone if is_indexed else gone[3:]:
            answer = client.get(address)
            assert answer.status_code == 410, address
            assert re.search("removed or damaged after the explorer was started.* start it again", answer.text)
        for address in ("/labels", "/versions", "/whatif"):
            assert client.get(address).status_code == 200
        if not is_indexed:
            assert "The index stopped: Part" in client.get("/").text
    assert caplog.text == ""


def test_a_browser_that_leaves_is_no_fault(site, caplog):
    """Its request was not complete, so nothing is done, answered or logged."""
    headers = {"host": f"127.0.0.1:{PORT}", "origin": ORIGIN, "authorization": f"Bearer {TOKEN}"}
    scope = {"type": "http", "method": "POST", "path": "/document/0/label", "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    messages = iter([{"type": "http.request", "body": b"label=go", "more_body": True}, {"type": "http.disconnect"}])

    async def receive():
        return next(messages)

    async def send(message):
        raise AssertionError(message)

    asyncio.run(site.app(scope, receive, send))
    assert caplog.text == ""


def test_pages_answer_while_the_index_is_built(everything, tmp_path):
    """They say how much of it is there."""
    with explored(everything.project, tmp_path / "labels.jsonl", is_indexed=False) as found:
        text = client_of(found).get("/").text
        assert f"The index has 0 of {found.explorer.index.rows} records so far" in text
        assert "0 documents" in text


def test_a_taken_port_is_one_message():
    """It says what to do instead."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} of 127.0.0.1 cannot be opened .* Name another port"):
            serve("t", [], port, lambda address: None)
