"""The stage: its output, its stability, and its messages."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stages.scrub.labelled import labelled
from tests.stages.scrub.scrubbed import found_in, scrub_texts

from gristmill.errors import UserError, WrongSetting
from gristmill.stages.scrub import scrub
from gristmill.stages.scrub.rewrite import Edit, extended, shifted

KNOWN = [one for one in labelled() if one.spans]
SOME = [one.text for one in KNOWN[::7]]
ACTIONS = ("placeholder", "mask", "pseudonym")


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_bytes(bytes(range(32)))
    return str(path)


def texts_of(answers):
    return answers["text"].to_pylist()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_second_scrub_changes_nothing(action, key):
    """For every kind of value, everywhere in the labelled set, with all options on."""
    given = {"action": action, "key": key, "max_density": None}
    languages, urls = [one.language for one in KNOWN], [one.url for one in KNOWN]
    once = scrub_texts([one.text for one in KNOWN], languages, urls, **given)
    again = scrub_texts(texts_of(once), languages, urls, **given)
    assert texts_of(again) == texts_of(once)


PIECES = st.one_of(
    st.sampled_from([text for one in KNOWN[::5] for text in [one.text]]),
    st.text("0123456789 -.()+/", min_size=1, max_size=18),
    st.sampled_from(["@", "tel ", "card ", "x@y.com", " ", "\n", ":", "45.33.32.156", "4012 8888 8888 1881", "SSN "]),
)


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(ACTIONS))
def test_scrubbing_is_idempotent_for_any_neighbours(key, text, action):
    """Even if a replacement reveals its neighbour."""
    given = {"action": action, "key": key, "regions": ["US", "DE"], "max_density": None}
    once = texts_of(scrub_texts([text], **given))
    assert texts_of(scrub_texts(once, **given)) == once


CARDS = ("4111 1111 1111 1111", "5500-0000-0000-0004", "3782 822463 10005", "6011111111111117", "4012888888881881")


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(CARDS), min_size=1, max_size=50),
    st.sampled_from([" ", "  ", ", ", "\n", " 7 ", " 2024 "]),
    st.sampled_from(ACTIONS),
    st.booleans(),
)
def test_every_card_of_a_list_goes_at_once(key, listed, between, action, said_before):
    """Any number of them, bare or in groups, with numbers between them, after the word or before it."""
    text = between.join(listed)
    text = f"cards: {text}" if said_before else f"{text} (cards)"
    given = {"action": action, "key": key, "max_density": None}
    once = scrub_texts([text], **given)
    assert once["replaced_types"].to_pylist() == [["card"] * len(listed)]
    assert texts_of(scrub_texts(texts_of(once), **given)) == texts_of(once)


@pytest.mark.parametrize("action", ACTIONS)
def test_spans_are_those_that_were_replaced(action, key):
    """Outside the spans both texts are equal; inside them the new one has the replacement."""
    answers = scrub_texts(SOME, action=action, key=key, max_density=None)
    for text, row in zip(SOME, answers.to_pylist(), strict=True):
        before, after = text.encode(), row["text"].encode()
        old, new = row["replaced_spans"], row["replacement_spans"]
        assert len(old) == len(new) == 2 * len(row["replaced_types"])
        assert sorted(old) == old
        edges = zip([0, *old[1::2]], [*old[::2], len(before)], [0, *new[1::2]], [*new[::2], len(after)], strict=True)
        assert all(before[a:b] == after[c:d] for a, b, c, d in edges)
        assert row["replaced_bytes"] == sum(old[1::2]) - sum(old[::2])


def test_replacements_do_not_depend_on_order_or_company(key):
    """Row by row, backwards, all at once: the same texts."""
    given = {"action": "pseudonym", "key": key, "max_density": None}
    whole = texts_of(scrub_texts(SOME, **given))
    assert texts_of(scrub_texts(SOME[::-1], **given))[::-1] == whole
    assert [texts_of(scrub_texts([text], **given))[0] for text in SOME] == whole


def test_a_pseudonym_depends_on_the_value_and_the_key(key, tmp_path):
    """The same number in two spellings has one pseudonym; another key gives another one."""
    texts = ["Tel +1 415-867-5309", "call +1 (415) 867-5309"]
    digits = ["".join(filter(str.isdigit, text)) for text in texts_of(scrub_texts(texts, action="pseudonym", key=key))]
    assert digits[0] == digits[1]
    (tmp_path / "other").write_bytes(b"x" * 16)
    other = texts_of(scrub_texts(texts, action="pseudonym", key=str(tmp_path / "other")))
    assert "".join(filter(str.isdigit, other[0])) != digits[0]


def test_pseudonyms_have_the_form_and_no_owner(key):
    """Reserved ranges, a country that does not exist; cards and other numbers get placeholders."""
    text = "x@foo.com 45.33.32.156 2607:f8b0:4004:c07::64 +1(415)867-5309 visa 4012 8888 8888 1881"
    made = texts_of(scrub_texts([text], action="pseudonym", key=key, max_density=None))[0].split()
    email, four, six, phone, _, card = made
    assert email.endswith(".invalid")
    assert four.startswith("10.")
    assert six.startswith("2001:db8:")
    assert phone.startswith("+9(99")
    assert card == "<CARD>"


@pytest.mark.parametrize(
    ("url", "after"),
    [
        ("?q=card+4532+0151+1283+0366", "?q=card+<CARD>"),
        ("?q=card%204532%200151%201283%200366&b=1", "?q=card+<CARD>&b=1"),
        ("whois/93.184.216.34", "whois/<IP>"),
        ("?ip=2a00%3A1450%3A4001%3A80b%3A%3A200e#top", "?ip=<IP>#top"),
        ("?m=jane%2540mill.org", "?m=<EMAIL>"),
        ("?m=jane%40mill.org", "?m=<EMAIL>"),
        ("?a=%FF&cc=4532+0151+1283+0366", "?a=%FF&cc=<CARD>"),
        ("2024/10/20/page-12.html?id=12345&v=1.2.3&x=a%20b", None),
    ],
)
def test_urls_are_also_searched_decoded(url, after):
    """Findings are replaced; a URL without findings keeps its spelling."""
    forms = ("https://mill.org/{}", "mill.org/{}", "see https://mill.org/{} now", '{{"link": ["//mill.org/{}"]}}')
    before = pa.array([*(form.format(url) for form in forms), None])
    made, changed = scrub.scrub_column(before, scrub.Config())
    assert made.to_pylist() == [*(form.format(after or url) for form in forms), None]
    assert changed == (len(forms) if after else 0)


def test_secrets_of_a_whole_url_are_replaced():
    """A hook is recognised by its host, and escapes may hide where its secret begins."""
    path = "/".join(("services", "T0G9A8B7C", "B0G9A8B7C", "aBcDeFgHiJkLmNoPqRsTuVwX"))
    urls = [f"https://hooks.slack.com/{one}" for one in (path, path.replace("/", "%2F"))]
    assert (
        scrub.scrub_column(pa.array(urls), scrub.Config())[0].to_pylist()
        == ["https://hooks.slack.com/services/<SECRET>"] * 2
    )


def test_nulls_and_texts_without_anything():
    """A null stays null everywhere; a text without findings has empty lists."""
    rows = scrub_texts([None, "nothing", ""]).to_pylist()
    assert rows[0] == dict.fromkeys(scrub.SCHEMA.names) | {"locator": "mill.txt#0"}
    for row, text in zip(rows[1:], ("nothing", ""), strict=True):
        assert row["text"] == text
        assert [row["replaced_spans"], row["replaced_types"], row["replaced_bytes"]] == [[], [], 0]


def test_a_document_that_is_mostly_personal_data_is_dropped():
    """By its share of bytes, from five findings on; another limit decides otherwise."""
    listed = "\n".join(f"person{n}@mail.com" for n in range(9))
    prose = "The mill stands by the river, and nobody knows who built it. " * 20
    rows = scrub_texts([listed, "a@b.com", prose + listed, listed], max_density=0.5).to_pylist()
    assert [row["drop"] for row in rows] == ["pii_density", None, None, "pii_density"]
    assert "9 findings" in rows[0]["detail"]
    assert scrub_texts([listed], max_density=None)["drop"].to_pylist() == [None]


def test_slices_of_a_batch_are_the_batch():
    """The engine may call with any slice."""
    columns = {"text": pa.array([*SOME, None]), "url": pa.nulls(len(SOME) + 1, pa.string())}
    columns |= dict.fromkeys(("source", "locator"), pa.array(["mill"] * (len(SOME) + 1)))
    batch = pa.record_batch(columns)
    whole = scrub.apply(batch, scrub.Config()).to_pylist()
    step = 5
    sliced = [scrub.apply(batch.slice(at, step), scrub.Config()) for at in range(0, batch.num_rows, step)]
    assert [row for part in sliced for row in part.to_pylist()] == whole


def test_counts_by_type_source_and_language():
    """For all findings, and for documents with findings; a scrub that found nothing at all warns."""
    texts = ["a@b.com and c@d.org", "45.33.32.156", "nothing"]
    columns = {"text": texts, "url": pa.nulls(3, pa.string()), "source": ["one", "two", "two"], "locator": ["x"] * 3}
    batch = pa.record_batch({**columns, "language.label": pa.array(["en", None, "de"])})
    config = scrub.Config()
    found = scrub.metrics(batch, scrub.apply(batch, config), config)
    assert found["findings"] == {"email": 2, "ip": 1}
    assert found["found"] == {"email": {"one": {"en": 1}}, "ip": {"two": {"(none)": 1}}}
    assert (found["documents_seen"], found["documents_changed"]) == (3, 2)
    assert not scrub.warnings(found, config)
    assert (
        "nothing was found in 3 documents" in scrub.warnings({"documents_seen": 3, "documents_changed": 0}, config)[0]
    )


def test_invalid_settings_are_refused(tmp_path):
    """Each is rejected with a fix."""
    with pytest.raises(ValueError, match="needs a key"):
        scrub.Config(action="pseudonym")
    with pytest.raises(ValueError, match="types is empty"):
        scrub.Config(types=())
    with pytest.raises(ValueError, match="card has no pseudonyms"):
        scrub.Config(action={"card": "pseudonym"}, key="key")
    for options, message in (
        ({"regions": ("XQ",)}, "XQ"),
        ({"placeholders": {"email": "nobody@foo.com"}}, "found as email"),
        ({"types": ("email",), "action": {"ip": "mask"}}, "not in types"),
    ):
        with pytest.raises(WrongSetting, match=message):
            scrub.check(scrub.Config(**options))
    (tmp_path / "short").write_bytes(b"1234")
    with pytest.raises(UserError, match="at least 16 random bytes"):
        scrub_texts(["a@b.com"], action="pseudonym", key=str(tmp_path / "short"))


def test_types_and_actions_are_chosen():
    """A type that is not named is kept; each type has its own action and placeholder."""
    text = "a@b.com 45.33.32.156"
    assert texts_of(scrub_texts([text], types=["ip"])) == ["a@b.com <IP>"]
    options = {"action": {"ip": "mask"}, "placeholders": {"email": "[mail]"}}
    assert texts_of(scrub_texts([text], types=["ip", "email"], **options)) == ["[mail] **.**.**.***"]
    assert found_in(scrub_texts(["x@kept.com"], keep_domains=["kept.com"]))[0] == set()


EDITS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.binary(max_size=4)), max_size=5)


def laid_out(steps, size):
    edits, at = [], 0
    for gap, length, written in steps:
        start, stop = at + gap, at + gap + length
        if stop > size:
            break
        edits.append(Edit(start, stop, "email", written))
        at = stop
    return edits


def done(text, edits):
    for edit in reversed(edits):
        text = text[: edit.start] + edit.written + text[edit.stop :]
    return text


@given(st.binary(max_size=40), EDITS, EDITS)
def test_later_edits_are_recorded_as_edits_of_the_text_before(text, first, second):
    """In order and without overlap; those that touch no replacement have their whole effect."""
    early = laid_out(first, len(text))
    between = done(text, early)
    late = laid_out(second, len(between))
    assert all(one.stop <= other.start for one, other in pairwise(extended(early, late)))
    apart = [edit for edit in late if all(b <= edit.start or edit.stop <= a for a, b in shifted(early))]
    assert done(text, extended(early, apart)) == done(between, apart)
