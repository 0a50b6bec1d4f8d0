"""The gate: which documents are dropped, and for which reason."""

import gzip
import hashlib
import json
import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gristmill.engine.mill import find_warnings
from gristmill.query.documents.documents import rows
from gristmill.stages.select import gate, licenses
from gristmill.stages.select.robots_tags import find_in_headers, find_in_pages
from gristmill.stages.shared import lists

TYPES = {"doc_id": pa.binary(16)}


def ask(documents: list[dict], **config) -> list[tuple]:
    """(drop, detail, category) of each document."""
    settings = gate.Config.model_validate({"x_robots_tag": (), "meta_robots": (), **config})
    names = gate.reads(settings)
    columns = [pa.array([document.get(name) for document in documents], TYPES.get(name, pa.string())) for name in names]
    answers = gate.apply(pa.RecordBatch.from_arrays(columns, names=list(names)), settings)
    answers.validate(full=True)
    return [tuple(row.values()) for row in answers.to_pylist()]


def of_urls(urls: list[str | None], **config) -> list[tuple]:
    return ask([{"url": url} for url in urls], **config)


@pytest.fixture
def list_file(tmp_path):
    """Write a list and return its path."""

    def write(text: str, name: str = "list.txt") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


def test_only_columns_that_a_rule_needs_are_read():
    """Reading html or text costs more than all rules."""
    none = {"x_robots_tag": (), "meta_robots": ()}
    assert gate.reads(gate.Config()) == ("meta", "html")
    assert gate.reads(gate.Config(**none, block_domains="x")) == ("url",)
    assert gate.reads(gate.Config(**none, allow_licenses=("MIT",))) == ("license",)
    assert gate.reads(gate.Config(**none, opt_out_hashes="x")) == ("doc_id", "text")


def test_a_gate_without_rules_is_refused():
    """Law 7: it would silently do nothing."""
    with pytest.raises(ValidationError, match="no rule"):
        gate.Config(x_robots_tag=(), meta_robots=())


def test_domains_urls_and_words_block_with_the_entry_and_the_list(list_file):
    """Each verdict has the reason, the entry that matched and the field of its list."""
    found = of_urls(
        [
            "https://www.Bad.example:8080/x",
            "http://good.example/page/#top",
            "https://good.example/buy-SPAM/now",
            "https://good.example/a-cheap/loan",
            "https://good.example/cheap/cheaply",
            "https://goodxxxgood.example/",
            "https://notbad.example/spammer",
            None,
        ],
        block_domains=list_file("# bad ones\r\nBAD.example\r\n", "a"),
        block_urls=list_file("https://good.example/page", "b"),
        block_words=list_file("spam\n", "c"),
        block_soft_words=list_file("cheap\nloan\n", "d"),
        block_substrings=list_file("xxx\n", "e"),
    )
    assert found == [
        ("blocked_domain", "bad.example", "block_domains"),
        ("blocked_url", "http://good.example/page/#top", "block_urls"),
        ("blocked_word", "spam", "block_words"),
        ("blocked_word", "cheap, loan", "block_soft_words"),
        (None, None, None),
        ("blocked_word", "xxx", "block_substrings"),
        (None, None, None),
        (None, None, None),
    ]


SPELLINGS = [
    "https://x.b\u00fccher.example/a",
    "https://x.B\u00dcCHER.example/a",
    "https://x.bu\u0308cher.example/a",
    "https://x.b%C3%BCcher.example/a",
    "https://x.xn--bcher-kva.example/a",
    "https://x.b\u00fcch\ter.exam\nple/a",
    "https://x.b\u00fccher\uff0eexample/a",
]
"""Of one address."""


@pytest.mark.parametrize("entry", ["b\u00fccher.example", "*.BU\u0308CHER.example", "0.0.0.0\txn--bcher-kva.example"])
def test_a_host_is_found_on_a_list_in_any_spelling(list_file, entry):
    """Tabs, capitals, Unicode forms and percent signs do not hide a page, and a list may use any of them."""
    other = "https://b\u00fccher2.example/"
    found = of_urls([*SPELLINGS, other], block_domains=list_file(f"# \u00fcber\n{entry}\na.example\n"))
    assert found == [("blocked_domain", "xn--bcher-kva.example", "block_domains")] * len(SPELLINGS) + [(None,) * 3]


def test_a_url_is_found_on_a_list_in_any_spelling_of_its_host(list_file):
    """The same holds for single addresses."""
    for entry in SPELLINGS[:1] + SPELLINGS[4:5]:
        found = of_urls(SPELLINGS, opt_out_urls=list_file(f"{entry}\nhttps://\u00e4.example/\n"))
        assert [row[0] for row in found] == ["opted_out"] * len(SPELLINGS)


def test_words_are_read_as_a_host_spells_them(list_file):
    """A word with letters of other scripts is found in a host, also with a tab in it."""
    urls = [SPELLINGS[0], SPELLINGS[5], "https://a.example/b\u00fcc\ther"]
    found = of_urls(urls, block_words=list_file("b\u00fccher\n"))
    assert [row[:2] for row in found] == [("blocked_word", "b\u00fccher")] * 3


def test_words_that_are_not_utf8_are_shown_as_text(list_file):
    """`%FF` decodes to a byte that no string column may have."""
    assert lists.load("block_words", list_file("x"), "words").entries == (1,)
    path = list_file("")
    with open(path, "wb") as file:
        file.write(b"a\xff\n")
    assert of_urls(["http://h.example/a%FF/"], block_words=path) == [("blocked_word", "a\ufffd", "block_words")]


def test_allow_lists_pass_only_what_is_on_one_of_them(list_file):
    """A document without a URL is on none of them."""
    found = of_urls(
        ["http://a.in.example/x", "http://out.example/1/", "http://Out.example/2", None],
        allow_domains=list_file("in.example", "a"),
        allow_urls=list_file("out.example/1", "b"),
    )
    assert found == [
        (None, None, None),
        (None, None, None),
        ("not_on_allow_list", "out.example", None),
        ("not_on_allow_list", None, None),
    ]


def test_a_folder_is_one_list_for_each_file_and_sub_folder(list_file, tmp_path):
    """UT1's layout works: `urls` next to `domains` is for fields of URLs; files of unknown kind are ignored."""
    list_file("adult.example", "lists/adult/domains")
    list_file("page.example/adult", "lists/adult/urls")
    list_file("(^|x)", "lists/adult/expressions")
    list_file("spam.example", "lists/spam.txt.gz")
    list_file("more.example\nspam.example", "lists/x/one.txt")
    list_file("also.example", "lists/x/two.txt")
    list_file("readme.example", "lists/README.md")
    list_file("hidden.example", "lists/.git/x")
    folder = str(tmp_path / "lists")
    hosts = ["adult", "spam", "more", "also", "readme", "hidden", "urls", "page"]
    found = of_urls([f"http://{host}.example/adult" for host in hosts], block_domains=folder, block_urls=folder)
    assert [row[2] for row in found] == [
        *("block_domains/adult", "block_domains/spam", "block_domains/x", "block_domains/x"),
        *(None, None, None, "block_urls/adult"),
    ]


def test_a_list_that_changes_is_read_again(list_file):
    """A process keeps a parsed list while the size and time of the file stay the same."""
    path = list_file("one.example")
    first = lists.load("block_domains", path, "domains")
    assert lists.load("block_domains", path, "domains") is first
    list_file("two.example!")
    os.utime(path, ns=(1, 1))
    assert [row[0] for row in of_urls(["http://one.example/"], block_domains=path)] == [None]


def test_a_list_longer_than_a_block_is_read_whole(list_file, monkeypatch):
    """Blocks end with a line, so no entry is split."""
    entries = [f"host{number}.example" for number in range(60)]
    path = list_file("\n".join(entries))
    for size in (1, 7, 100, 333):
        monkeypatch.setattr(lists, "BLOCK_BYTES", size)
        lists._kept.clear()
        found = of_urls([f"http://{entry}/" for entry in entries], block_domains=path)
        assert {row[0] for row in found} == {"blocked_domain"}
        assert lists.load("block_domains", path, "domains").entries == (60,)


def test_opt_outs_match_domain_url_text_and_document(list_file):
    """They come before every other reason, so that opt-outs are counted as such."""
    ids = [bytes([number] * 16) for number in range(5)]
    texts = ["a", "b", "keep", None, "c"]
    urls = ["http://x.example/", "http://y.example/p", "http://z.example/", "http://z.example/", "http://z.example/"]
    digest = hashlib.sha256(b"c").hexdigest()
    documents = [{"doc_id": i, "text": t, "url": u} for i, t, u in zip(ids, texts, urls, strict=True)]
    found = ask(
        documents,
        opt_out_domains=list_file("x.example", "a"),
        opt_out_urls=list_file("https://y.example/p/", "b"),
        opt_out_hashes=list_file(f"{ids[3].hex()}\n{digest.upper()}\n{hashlib.sha256(b'').hexdigest()}", "c"),
        block_domains=list_file("example", "d"),
    )
    assert found == [
        ("opted_out", "x.example", "opt_out_domains"),
        ("opted_out", "http://y.example/p", "opt_out_urls"),
        ("blocked_domain", "example", "block_domains"),
        ("opted_out", ids[3].hex(), "opt_out_hashes"),
        ("opted_out", digest, "opt_out_hashes"),
    ]


@pytest.mark.parametrize(
    ("value", "directive"),
    [
        ("noindex", "noindex"),
        ("NoIndex, nofollow", "noindex"),
        ("none", "none"),
        ("noarchive, noai", "noai"),
        ("index, follow, noimageai", None),
        ("otherbot: noindex, nofollow", None),
        ("otherbot: nofollow, ccbot: noindex", "noindex"),
        ("CCBot: noarchive, noai", "noai"),
        ("otherbot: noindex\nnoai", "noai"),
        ("unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, noindex", "noindex"),
        ("max-snippet:-1, noindex", "noindex"),
        ("robots: noindex", "noindex"),
        ("noindexing", None),
    ],
)
def test_headers_apply_if_they_are_for_all_robots_or_ours(value, directive):
    """A name before a colon is the robot; directives with values are not names."""
    meta = pa.array([json.dumps({"http_status": 200, "x_robots_tag": value}), "{}", None])
    assert find_in_headers(meta, ("noai", "noindex", "none"), "CCBot") == ({0: directive} if directive else {})


@pytest.mark.parametrize(
    ("head", "directive"),
    [
        ('<meta name="robots" content="noindex, nofollow">', "noindex"),
        ("<META CONTENT='NOAI,index' NAME=Robots />", "noai"),
        ("<meta name=ccbot content=none>", "none"),
        ('<meta\nname="robots"\ncontent="follow noindex">', "noindex"),
        ('<meta name="robots" content="no&#105;ndex,noai">', "noai"),
        ('<meta name="googlebot" content="noindex">', None),
        ('<meta name="robots" content="index, follow, noimageai">', None),
        ('<meta name="description" content="robots and noindex">', None),
        ('<!-- <meta name="robots" content="noindex"> -->', None),
        ('<script>var a = \'<meta name="robots" content="noindex">\';</script>', None),
        ('</head><meta name="robots" content="noindex">', None),
        ('<body><meta name="robots" content="noindex">', None),
        ('<header><meta name="robots" content="noindex">', "noindex"),
        (" " * (64 << 10) + '<meta name="robots" content="noindex">', None),
        ('<meta name="robots" content="noindex', None),
        ('<meta property="x" content="it\'s><meta name="robots" content="noindex">', "noindex"),
        ("<meta name=robots", None),
    ],
)
def test_meta_tags_apply_in_the_head_of_a_page(head, directive):
    """In any order, case and quoting, for all robots or for ours; not in comments, scripts or the body."""
    pages = pa.array([None, f"<!doctype html><html><head><title>x</title>{head}", ""])
    assert find_in_pages(pages, ("noai", "noindex", "none"), "CCBot") == ({1: directive} if directive else {})


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("MIT", True),
        ("mit", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT AND Apache-2.0", True),
        ("GPL-3.0-only OR MIT AND Apache-2.0", True),
        ("(GPL-3.0-only OR MIT) AND Apache-2.0", True),
        ("GPL-3.0-only AND (MIT OR Apache-2.0)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-or-later WITH Classpath-exception-2.0", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("LGPL-2.1-or-later", True),
        ("LGPL-2.1+", True),
        ("LGPL-2.1", True),
        ("EUPL-1.2", False),
        ("EUPL-1.2+", True),
        ("MIT, but not for training", False),
        ("MIT no AI", False),
        ("cc by  4.0", True),
        ("MIT OR", False),
        ("(MIT", False),
        ("(" * 100 + "MIT" + ")" * 100, False),
        ("NOASSERTION", None),
        (" ", None),
        (None, None),
    ],
)
def test_a_license_expression_is_satisfied_by_the_list_or_not(expression, answer):
    """OR: any side; AND: all; exceptions and `or later` only add; unreadable expressions are not allowed."""
    names = ["MIT", "Apache-2.0", "LGPL-2.1-only", "CC BY 4.0", "EUPL-1.2-or-later"]
    allowed = licenses.allow_list([*names, "GPL-2.0+ WITH Classpath-exception-2.0"])
    assert licenses.satisfied(expression, allowed) is answer


NAMES = st.sampled_from(["A", "B", "C", "D"])
TREES = st.recursive(NAMES, lambda tree: st.tuples(st.sampled_from(["AND", "OR"]), tree, tree), max_leaves=8)


@given(TREES, st.sets(NAMES))
def test_expressions_have_the_precedence_of_python(tree, allowed):
    """Python's `and` and `or` bind like SPDX's."""

    def text(node, operators):
        if isinstance(node, str):
            return operators[2].format(node)
        inner = [text(side, operators) for side in node[1:]]
        left, right = [
            f"({t})" if not isinstance(s, str) and s[0] != node[0] else t for s, t in zip(node[1:], inner, strict=True)
        ]
        return f"{left} {operators[node[0] == 'OR']} {right}"

    meaning = eval(text(tree, ("and", "or", "('{}' in allowed)")), {"allowed": allowed})
    spdx = text(tree, ("AND", "OR", "{}"))
    assert licenses.satisfied(spdx, licenses.allow_list(allowed)) == meaning


def test_documents_without_a_license_are_dropped_or_kept_as_set():
    """Two reasons distinguish an unknown license from a refused one."""
    documents = [{"license": name} for name in ("MIT", "GPL-3.0-only", None, "NONE")]
    refused = ("license_not_allowed", "GPL-3.0-only", None)
    unknown = [("license_unknown", None, None), ("license_unknown", "NONE", None)]
    assert ask(documents, allow_licenses=("MIT",)) == [(None, None, None), refused, *unknown]
    assert ask(documents, allow_licenses=("MIT",), unknown_license="keep")[2:] == [(None, None, None)] * 2


HOSTS = st.lists(st.sampled_from(["a.x", "b.x", "x", "y", "a.y", "z"]), max_size=6)


@settings(max_examples=40, deadline=None)
@given(
    HOSTS,
    HOSTS,
    st.lists(st.sampled_from(["a.x", "q.b.x", "x", "y", "a.y", "zz", "z"]), min_size=1, max_size=8),
    st.integers(0, 8),
)
def test_verdicts_do_not_depend_on_how_rows_are_batched(tmp_path_factory, opted_out, blocked, hosts, at):
    """Each row is judged separately, like by a plain loop over the two lists."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "a").write_text("\n".join(opted_out))
    (folder / "b").write_text("\n".join(blocked))
    config = {"opt_out_domains": str(folder / "a"), "block_domains": str(folder / "b")}
    urls = [f"http://{host}/" for host in hosts]
    whole = of_urls(urls, **config)
    assert whole == of_urls(urls[:at], **config) + of_urls(urls[at:], **config)
    for host, (reason, _, _) in zip(hosts, whole, strict=True):
        below = {host.split(".", cut)[-1] for cut in range(host.count(".") + 1)}
        expected = "opted_out" if below & set(opted_out) else "blocked_domain" if below & set(blocked) else None
        assert reason == expected


@pytest.fixture
def gated(project, list_file):
    """A project of four documents on three sites, whose recipe has a gate with the given config."""

    def make(config: str):
        for path in (project.folder / "in").iterdir():
            path.unlink()
        hosts = ["a.example", "www.b.example", "c.example", "c.example"]
        lines = [json.dumps({"text": f"text {n}", "url": f"https://{host}/{n}"}) for n, host in enumerate(hosts)]
        (project.folder / "in" / "x.jsonl").write_text("\n".join([*lines, "{broken"]))
        project.write_recipe(steps=f"  - gristmill.stages.select.gate: {config}")
        return project

    return make


def test_a_recipe_with_a_gate_drops_what_the_lists_name(gated, list_file):
    """Through the engine: reasons, lists and counts, without a warning."""
    list_file("b.example\n", "lists/spam.txt")
    project = gated("{block_domains: lists, x_robots_tag: [], meta_robots: []}")
    run = project.run()
    found = [(row.fields["url"], row.reason, row.columns["category"]) for row in rows(run, "gate", True, None)]
    assert ("https://www.b.example/1", "blocked_domain", "block_domains/spam") in found
    assert len(found) == 1
    assert run.states["all/gate"].metrics["decided"] == {"block_domains/spam": 1}
    (warned,) = find_warnings(run)
    assert warned.startswith("notes/ingest: 1 of 5 records could not be read (invalid_json 1).")


def test_lists_without_effect_are_warnings(gated, list_file):
    """Law 7: empty lists, entries of another kind, lists that matched nothing, an allow list of other sites."""
    list_file("# nothing yet\n", "empty.txt")
    list_file("nobody.example\nb.example/page\n", "strangers.txt")
    list_file("two words\nthree-word-entry\ntext\n", "words.txt")
    list_file("a.example\n", "some/hit.txt")
    list_file("q.example\n", "some/miss.txt")
    lists_given = (
        "block_words: words.txt, block_urls: empty.txt, opt_out_domains: strangers.txt, block_domains: some, "
        "allow_domains: strangers.txt"
    )
    run = gated(f"{{{lists_given}, x_robots_tag: [], meta_robots: []}}").run()
    assert sorted(text.removeprefix("all/gate: ") for text in find_warnings(run) if text.startswith("all/gate")) == [
        "allow_domains has 1 entry without effect: not domains",
        "block_domains matched no document",
        "block_urls is an empty list",
        "block_urls matched no document",
        "block_words has 2 entries without effect: not single words",
        "block_words matched no document",
        "no document is on the allow list",
        "opt_out_domains has 1 entry without effect: not domains",
        "opt_out_domains matched no document",
    ]


def test_a_changed_list_runs_the_gate_again_and_a_moved_one_does_not(gated, list_file):
    """Law 2: only the content of a list counts."""
    list_file("a.example\n", "one.txt")
    project = gated("{block_domains: one.txt}")
    project.run()
    (project.folder / "one.txt").rename(project.folder / "two.txt")
    project.recipe.write_text(project.recipe.read_text().replace("one.txt", "two.txt"))
    assert "all/gate" not in project.executed(project.run())
    list_file("c.example\n", "two.txt")
    run = project.run()
    assert run.states["all/gate"].metrics["dropped"] == {"blocked_domain": 2}
