"""Rules of robots.txt: the examples of RFC 9309, plain oracles, and a crawl with its rules in another file."""

import itertools
import re
import urllib.robotparser
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stages.select.test_gate import SPELLINGS

from demo.warc import Response, write
from gristmill.engine.mill import find_warnings
from gristmill.query.documents.documents import rows
from gristmill.stages.select import robots
from gristmill.stages.select.robots_txt import MAX_BYTES, SiteRules, path_of, rules_for
from gristmill.stages.shared.urls import parse


def allowed(text: str, path: str, agent: str = "CCBot") -> bool:
    """The verdict on one path."""
    rule = SiteRules(rules_for(text, agent)).deciding(path_of(parse("http://h.example" + path)))
    return rule is None or rule[0]


def one_rule(rule: str, path: str) -> bool:
    """Whether a rule matches a path."""
    return not allowed(f"User-agent: *\nDisallow: {rule}", path)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https%3a%2F%2ffoo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar/U+E38384", "/foo/bar/U+E38384"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/%7ejoe/", "/~joe/x"),
        ("/a%3cd", "/a%3Cd.html"),
    ],
)
def test_octets_compare_as_in_the_tables_of_the_rfc(rule, path):
    """RFC 9309, sections 2.2.2 and 2.2.3: encoded or not, a path is the same path."""
    assert one_rule(rule, path)


def test_reserved_characters_are_not_their_encoded_forms():
    """RFC 3986, section 2.2: `/a%2Fb` is one segment, `/a/b` two."""
    assert not one_rule("/a/b", "/a%2Fb")
    assert not one_rule("/a%2fb", "/a/b")


@pytest.mark.parametrize(
    ("rule", "matching", "others"),
    [
        ("/fish", ["/fish", "/fish.html", "/fish/salmon", "/fishheads"], ["/Fish.asp", "/catfish", "/?id=fish"]),
        ("/fish*", ["/fish", "/fishheads/yummy.html"], ["/catfish"]),
        ("/fish/", ["/fish/", "/fish/?id=anything"], ["/fish", "/fish.html"]),
        ("/*.php", ["/index.php", "/folder/x.php/", "/?a=x.php5"], ["/", "/windows.PHP"]),
        ("/*.php$", ["/filename.php", "/folder/filename.php"], ["/filename.php?x", "/filename.php/", "/windows.PHP"]),
        ("/fish*.php", ["/fish.php", "/fishheads/catfish.php?p"], ["/Fish.PHP"]),
        ("*", ["/", "/x"], []),
        ("/$", ["/", ""], ["/a"]),
        ("/a**b", ["/ab", "/axxb"], ["/a"]),
        ("/a$b", ["/a$b", "/a$bc"], ["/a", "/ab"]),
        ("x", [], ["/x", "x"]),
        ("", [], ["/", "/a"]),
    ],
)
def test_wildcards_match_as_published(rule, matching, others):
    """The examples of RFC 9309 and of the largest search engine's documentation."""
    assert [path for path in [*matching, *others] if one_rule(rule, path)] == matching


@pytest.mark.parametrize(
    ("allow", "disallow", "path", "verdict"),
    [
        ("/p", "/", "/page", True),
        ("/folder", "/folder", "/folder/page", True),
        ("/page", "/*.htm", "/page.htm", False),
        ("/page", "/*.ph", "/page.php5", True),
        ("/$", "/", "/", True),
        ("/$", "/", "/page.htm", False),
        ("/example/page/", "/example/page/disallowed.gif", "/example/page/disallowed.gif", False),
    ],
)
def test_the_longest_path_decides_and_allow_wins_a_tie(allow, disallow, path, verdict):
    """The order of the lines does not matter."""
    lines = [f"Allow: {allow}", f"Disallow: {disallow}"]
    assert allowed("\n".join(["User-agent: *", *lines]), path) is verdict
    assert allowed("\n".join(["User-agent: *", *lines[::-1]]), path) is verdict


GROUPS = """\ufeffDisallow: /before-any-group
User-agent: *
Disallow: /for-all   # a remark
user-AGENT : ccbot/2.0 (https://example.com)
Crawl-delay: 4
User-agent: OtherBot
Sitemap: https://h.example/map.xml
DISALLOW:/both
Allow:
nonsense

User-agent: News
Disallow: /

User-agent: CCBot
Disallow: /second-group
User-agent: Silent
"""


@pytest.mark.parametrize(
    ("agent", "closed"),
    [
        ("CCBot", ["/both", "/second-group"]),
        ("otherbot", ["/both"]),
        ("Nobody", ["/for-all"]),
        ("News-Images", ["/", "/before-any-group", "/both", "/for-all", "/second-group"]),
        ("Newsletter", ["/for-all"]),
        ("Silent", []),
        ("CCB", ["/for-all"]),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_groups_are_chosen_by_name_and_combined(agent, closed, line_end):
    """Case, versions, remarks, other lines and line ends do not matter; a group without rules allows all."""
    paths = ["/", "/before-any-group", "/both", "/for-all", "/second-group"]
    assert [path for path in paths if not allowed(GROUPS.replace("\n", line_end), path, agent)] == closed


def test_rules_after_500_kib_do_not_count_and_none_is_cut():
    """A rule that crosses the limit would forbid more than intended if it were cut."""
    head = "User-agent: *\nDisallow: /a\n"
    filler = "#" * (MAX_BYTES - len(head) - len("\nDisallow: /pri"))
    text = f"{head}{filler}\nDisallow: /private/\nDisallow: /b\n"
    assert text.encode()[:MAX_BYTES].endswith(b"/pri")
    assert rules_for(text, "CCBot") == [(False, "/a")]


def as_regex(rule: str) -> re.Pattern[str]:
    """The meaning of a rule as a regular expression."""
    end = r"\Z" if rule.endswith("$") else ""
    return re.compile("(?s:.*)".join(map(re.escape, rule.removesuffix("$").split("*"))) + end)


def test_every_short_rule_matches_every_short_path_as_its_regular_expression_does():
    """All rules of up to four of `a b *`, open or ended by `$`, on all paths of up to five of `a b`."""
    paths = ["/" + "".join(letters) for size in range(6) for letters in itertools.product("ab", repeat=size)]
    for size, end in itertools.product(range(5), ("", "$")):
        for letters in itertools.product("ab*", repeat=size):
            rule = "/" + "".join(letters) + end
            found = [path for path in paths if SiteRules([(False, rule)]).deciding(path)]
            assert found == [path for path in paths if as_regex(rule).match(path)], rule


RULE_PATHS = st.text("ab/*$", max_size=6).map("/".__add__)
PATHS = st.text("ab/$*", max_size=8).map("/".__add__)


@given(st.lists(st.tuples(st.booleans(), RULE_PATHS), max_size=6), PATHS)
def test_verdicts_equal_those_of_regular_expressions(rules, path):
    """All rules are tried and the longest decides: the definition in plain Python."""

    def spelled(rule: str) -> str:
        return rule[:-1].replace("$", "%24") + rule[-1:]

    text = "\n".join(["User-agent: *", *(f"{'Allow' if kind else 'Disallow'}: {rule}" for kind, rule in rules)])
    found = [(len(spelled(rule)), kind) for kind, rule in rules if as_regex(rule).match(path)]
    assert allowed(text, path) == max(found, default=(0, True))[1]


SIMPLE_PATHS = st.one_of(st.just([""]), st.lists(st.sampled_from(["/a", "/b/", "/ab"]), min_size=1))


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["CCBot", "other", "*"]), SIMPLE_PATHS),
    st.sampled_from(["/", "/a", "/ab", "/b", "/b/c"]),
)
def test_simple_files_are_read_as_the_standard_library_reads_them(groups, path):
    """Without wildcards, Allow, repeated groups and empty rules next to others, both must agree."""
    text = "\n\n".join(
        "\n".join([f"User-agent: {agent}", *(f"Disallow: {closed}" for closed in paths)])
        for agent, paths in groups.items()
    )
    peer = urllib.robotparser.RobotFileParser()
    peer.parse(text.split("\n"))
    assert allowed(text, path) == peer.can_fetch("CCBot", path)


ROBOTS = b"User-agent: CCBot\nDisallow: /internal/\n\nUser-agent: *\nDisallow: /\n"
PAGE = b"<html><body><p>The quick brown fox jumps over the lazy dog.</p></body></html>"


@pytest.fixture
def crawl(project):
    """Two snapshots with pages in one file and robots.txt in another; every file is a part."""

    def archive(name: str, when: datetime, pages: dict[str, bytes]) -> None:
        path = project.folder / "crawl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        types = {url: "text/plain" if url.endswith("robots.txt") else "text/html; charset=utf-8" for url in pages}
        write(path, [Response(url, body, types[url]) for url, body in pages.items()], when)

    pages = {
        "https://a.example/internal/x": PAGE,
        "http://A.example:80/public": PAGE,
        "https://a.example:8443/internal/x": PAGE,
        "https://b.example/internal/": PAGE,
    }
    archive("one/pages.warc.gz", datetime(2026, 1, 2, tzinfo=UTC), pages)
    archive("two/pages.warc.gz", datetime(2026, 2, 2, tzinfo=UTC), pages)
    old = {"https://a.example/robots.txt": b"User-agent: *\nDisallow: /public\n"}
    archive("one/robots-old.warc.gz", datetime(2026, 1, 1, tzinfo=UTC), old)
    archive("one/robots.warc.gz", datetime(2026, 1, 3, tzinfo=UTC), {"https://a.example/robots.txt": ROBOTS})

    def recipe(config: str = "{agent: CCBot}") -> None:
        project.recipe.write_text(
            "recipe: crawl\nstore: ./store\nsources:\n  web:\n    kind: web\n"
            "    read: {format: warc, paths: ['crawl/*/*.warc.gz'], snapshot: 'crawl/([^/]+)/', part_bytes: 1KB}\n"
            f"steps:\n  - gristmill.stages.select.robots: {config}\n"
        )

    recipe()
    project.with_config = recipe
    return project


def verdicts(project):
    run = project.run()
    found = rows(run, None, None, None)
    kept = ((row.fields["snapshot"], row.fields["url"], row.step, row.reason, row.detail) for row in found)
    return run, {
        entry[:2]: entry[2:] for entry in kept if entry[1] and entry[3] not in ("request_record", "robots_txt")
    }


def test_pages_obey_the_robots_txt_of_their_site_in_any_file(crawl):
    """In another file, part or scheme: the latest robots.txt of the same host, port and snapshot counts."""
    run, found = verdicts(crawl)
    assert len(run.documents["web"]) >= 4
    forbidden = {key: verdict for key, verdict in found.items() if verdict[0]}
    assert forbidden == {
        ("one", "https://a.example/internal/x"): ("all/robots", "robots_disallowed", "Disallow: /internal/")
    }
    assert len(found) == 8
    assert ["7 of 7 kept documents have no text" in warned for warned in find_warnings(run)] == [True]


def test_scope_all_uses_the_latest_robots_txt_of_any_snapshot(crawl):
    """A site that was closed later is closed in every snapshot."""
    crawl.with_config("{agent: CCBot, scope: all}")
    _, found = verdicts(crawl)
    assert sorted(key for key, verdict in found.items() if verdict[1]) == [
        (snapshot, "https://a.example/internal/x") for snapshot in ("one", "two")
    ]


def test_sites_without_robots_txt_can_be_dropped(crawl):
    """missing: drop keeps only sites with known rules."""
    crawl.with_config("{missing: drop}")
    _, found = verdicts(crawl)
    assert [key for key, verdict in found.items() if verdict[1] is None] == [("one", "http://A.example:80/public")]
    assert {verdict[1] for verdict in found.values()} == {None, "robots_disallowed", "robots_missing"}


def test_a_crawl_without_robots_txt_is_a_warning(crawl):
    """Law 7: the step would silently do nothing."""
    for path in crawl.folder.glob("crawl/one/robots*"):
        path.unlink()
    run, _ = verdicts(crawl)
    assert [text for text in find_warnings(run) if "no robots.txt record" in text]


def test_spellings_of_a_host_are_one_site():
    """A tab in the host, or its Unicode form, does not exempt a page from the rules of its site."""
    columns = {
        "url": pa.array(SPELLINGS),
        "snapshot": pa.array(["one"] * len(SPELLINGS)),
        "timestamp": pa.nulls(len(SPELLINGS), pa.timestamp("us", tz="UTC")),
        "ingest.text": pa.nulls(len(SPELLINGS), pa.string()),
        "ingest.drop": pa.nulls(len(SPELLINGS), pa.string()),
    }
    sent = robots.emit(pa.record_batch(columns), robots.Config())
    assert sent["site"].to_pylist() == ["x.xn--bcher-kva.example one"] * len(SPELLINGS)


def test_dropped_pages_are_not_sent():
    """Dropped pages need no rule; robots.txt itself is always a dropped row."""
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["http://h.example/a", "http://h.example/b", "http://h.example/robots.txt?x", None, "urn:x:y"]),
            pa.array([None] * 5, pa.string()),
            pa.array([None] * 5, pa.timestamp("us", "UTC")),
            pa.array([None, None, "User-agent: *\nDisallow: /", None, None]),
            pa.array([None, "http_status", "robots_txt", None, None]),
        ],
        names=list(robots.READS),
    )
    sent = robots.emit(batch, robots.Config())
    assert sent["row"].to_pylist() == [0, 2]
    assert sent["rules"].to_pylist() == [None, "-/"]
    assert len(set(sent["key"].to_pylist())) == 1
