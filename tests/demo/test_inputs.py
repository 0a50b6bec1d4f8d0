"""The demo inputs are reproducible, accounted for to the last page, and show no trace of the machine."""

import filecmp
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from backports import zstd
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text

from demo.articles import STOP_WORDS, shingles
from demo.broken import DEEP_TAGS, HUGE_BYTES
from demo.inputs import build
from demo.truth import KINDS, Sign, Truth
from gristmill.errors import UserError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCALE = 0.02
Pages = dict[tuple[str, str], tuple[dict[str, str], bytes]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("demo") / "inputs"
    return folder, build(folder, seed=3, scale=SCALE)


@pytest.fixture(scope="module")
def pages(inputs: tuple[Path, Truth]) -> Pages:
    """Headers and body of every readable response, without the truncated members."""
    folder, truth = inputs
    found: Pages = {}
    for path in sorted(folder.glob("crawl/*/part-*.warc.gz")):
        for record in ArchiveIterator(
            io.BytesIO(undamaged(path, folder, truth)), record_types=WarcRecordType.response, verify_digests=True
        ):
            key = (record.headers["WARC-Target-URI"], path.parent.name)
            assert key not in found
            found[key] = ({k.lower(): v for k, v in record.http_headers.items()}, record.reader.read())
    return found


def undamaged(path: Path, folder: Path, truth: Truth) -> bytes:
    content = path.read_bytes()
    for plant in truth.plants["truncated_gzip"]:
        if plant.path == path.relative_to(folder).as_posix():
            start, stop = map(int, re.findall(r"\d+", plant.note or ""))
            content = content[:start] + content[stop:]
    return content


def text_of(body: bytes) -> str:
    return str(extract_plain_text(body.decode("utf-8", "replace"), main_content=True))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_build_in_another_process_has_the_same_bytes(inputs: tuple[Path, Truth], tmp_path: Path) -> None:
    """The order of sets, which changes between processes, affects no file."""
    folder, _ = inputs
    again = tmp_path / "again"
    command = [sys.executable, "-m", "demo", "build", str(again), "--seed", "3", "--scale", str(SCALE)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "12345"}, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert files(again) == files(folder)
    _, different, unread = filecmp.cmpfiles(folder, again, files(folder), shallow=False)
    assert (different, unread) == ([], [])
    assert "good pages" in done.stdout


def test_every_response_is_good_or_listed_or_planted(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """Everything in the archives is accounted for, and everything in the truth is in them."""
    _, truth = inputs
    planted = [(p.url, p.snapshot) for kind in KINDS for p in truth.plants[kind] if p.url and not p.path]
    declared = Counter([*truth.good, *truth.other, *planted])
    assert declared == Counter(pages.keys())


def test_every_kind_of_defect_is_planted_and_listed(inputs: tuple[Path, Truth]) -> None:
    """The truth on disk equals the returned one, has every kind, and its numbers are right."""
    folder, truth = inputs
    assert Truth.read(folder / "truth.json") == truth
    assert all(truth.plants[kind] for kind in KINDS)
    kinds = json.loads((folder / "truth.json").read_text("utf-8"))["kinds"]
    assert {kind: found["number"] for kind, found in kinds.items()} == {k: len(truth.plants[k]) for k in KINDS}


def test_archives_break_at_the_planted_damage_only(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """One archive is truncated in the middle, with records after it, and one at its end; the others are whole."""
    folder, truth = inputs
    after = {}
    for plant in truth.plants["truncated_gzip"]:
        assert (plant.url, plant.snapshot) not in pages
        content = (folder / str(plant.path)).read_bytes()
        start, stop = map(int, re.findall(r"\d+", plant.note or ""))
        assert content[start : start + 2] == b"\x1f\x8b"
        after[plant.snapshot] = len(content) - stop
        whole = sum(1 for _ in ArchiveIterator(io.BytesIO(content[:start])))
        assert whole > 10
    assert sorted(after.values())[0] == 0
    assert sorted(after.values())[1] > 1000


def test_no_page_shows_where_it_was_created(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """No page or record contains a path of the installation, a home folder or a memory address."""
    folder, _ = inputs
    traces = {sysconfig.get_path("stdlib"), str(Path.home()) + "/", str(folder), os.getcwd(), "file:///"}
    address = re.compile(rb"0x[0-9a-fA-F]{8,}")
    for (url, _), (_, body) in pages.items():
        assert not address.search(body), url
        assert not any(trace.encode() in body for trace in traces), url
    assert not any(trace in (folder / "truth.json").read_text("utf-8") for trace in traces)


def test_good_pages_are_not_similar_to_each_other(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """No two good pages of a snapshot share half of their word 5-grams after extraction."""
    _, truth = inputs
    for snapshot in ("2026-09", "2026-10"):
        grams = {u: shingles(text_of(pages[u, s][1]).split()) for u, s in truth.good if s == snapshot}
        holders: dict[str, list[str]] = defaultdict(list)
        for url, found in grams.items():
            for gram in found:
                holders[gram].append(url)
        shared: Counter[tuple[str, str]] = Counter()
        for urls in holders.values():
            shared.update((a, b) for i, a in enumerate(urls) for b in urls[i + 1 :])
        for (a, b), both in shared.items():
            assert both < 0.5 * len(grams[a] | grams[b]), (a, b)


def test_good_pages_read_as_prose(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """The extracted text of a good page passes the simplest rules of Gopher and C4."""
    _, truth = inputs
    for page in truth.good:
        text = text_of(pages[page][1])
        words = text.split()
        assert len(words) >= 100, page
        assert 3 <= sum(map(len, words)) / len(words) <= 10, page
        assert len(STOP_WORDS.intersection(word.lower() for word in words)) >= 2, page
        assert len(re.findall(r"[.!?](?:\s|$)", text)) >= 5, page
        assert "{" not in text, page


def test_copies_are_equal_and_near_copies_are_similar(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """An exact copy has the bytes of its original; a near copy has other words and a similarity above 0.8."""
    _, truth = inputs
    good = set(truth.good)
    for plant in truth.plants["exact_copy"] + truth.plants["near_copy"]:
        assert (plant.original, plant.snapshot) in good
    for plant in truth.plants["exact_copy"]:
        key = (str(plant.url), str(plant.snapshot))
        assert pages[key][1] == pages[str(plant.original), key[1]][1]
    for plant in truth.plants["near_copy"]:
        key = (str(plant.url), str(plant.snapshot))
        one, other = (shingles(text_of(pages[u, key[1]][1]).split()) for u in (key[0], str(plant.original)))
        assert 0.8 <= len(one & other) / len(one | other) < 1


def test_planted_strings_survive_extraction(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """Extraction keeps e-mail addresses, secrets, boilerplate and eval items, and no good page has any."""
    _, truth = inputs
    good = "\n".join(" ".join(text_of(pages[page][1]).split()) for page in truth.good)
    kinds = [k for k, kind in KINDS.items() if kind.sign is Sign.GONE or k.startswith("eval_")]
    for kind in kinds:
        for plant in truth.plants[kind]:
            assert plant.text
            text = " ".join(text_of(pages[str(plant.url), str(plant.snapshot)][1]).split())
            assert " ".join(plant.text.split()) in text
            assert plant.text not in good
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", good)


def test_copied_eval_items_can_be_found(inputs: tuple[Path, Truth]) -> None:
    """Partial and edited copies keep four fifths of their item's 13-grams; short items have no 13-gram."""
    folder, truth = inputs
    lines = [line for path in sorted((folder / "evals").glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    items = {item["id"]: item for item in map(json.loads, lines)}
    assert len(items) == len(lines) >= 60

    def grams(text: str) -> set[str]:
        return shingles(re.findall(r"\w+", text.lower()), 13)

    for kind in ("eval_whole", "eval_partial", "eval_edited"):
        for plant in truth.plants[kind]:
            item = items[plant.item]
            item_grams = grams(item["question"])
            assert len(item_grams & grams(str(plant.text))) >= 0.8 * len(item_grams) > 0
            assert (item["question"] in str(plant.text)) == (kind == "eval_whole")
    for plant in truth.plants["eval_short"]:
        assert items[plant.item]["question"] in str(plant.text)
        assert not grams(items[plant.item]["question"])


def test_broken_pages_match_their_kind(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """Sizes, depth, status codes, bad bytes and encodings match their kind."""
    _, truth = inputs
    bodies = {k: [pages[str(p.url), str(p.snapshot)] for p in truth.plants[k] if p.url and not p.path] for k in KINDS}
    assert [len(body) for _, body in bodies["huge_page"]] == [HUGE_BYTES]
    assert [body.count(b"<div>") for _, body in bodies["deep_page"]] == [DEEP_TAGS]
    assert all(not body.strip() for _, body in bodies["empty_body"])
    assert all(headers["location"] for headers, _ in bodies["redirect"])
    assert all(body.startswith(b"\x89PNG") for _, body in bodies["image"])
    for kind, low, high in (("few_invalid_bytes", 0, 0.01), ("mostly_invalid_utf8", 0.5, 1)):
        for headers, body in bodies[kind]:
            assert "utf-8" in headers["content-type"]
            text = body.decode("utf-8", "replace")
            assert low < text.count("\ufffd") / len(text) < high
    coded = {(h.get("transfer-encoding"), h.get("content-encoding")) for h, _ in bodies["encoded_body"]}
    assert {c for c, _ in coded} == {None, "chunked"}
    assert {c for _, c in coded} == {None, "gzip", "br", "deflate"}
    for plant in truth.plants["charset"]:
        codec, declared = str(plant.note).split(", told ")
        headers, body = pages[str(plant.url), str(plant.snapshot)]
        assert str(plant.text) in body.decode(codec)
        assert (codec in headers["content-type"], f'charset="{codec}"'.encode() in body) == (
            declared == "http",
            declared == "meta",
        )
        with pytest.raises(UnicodeDecodeError):
            body.decode("utf-8")


def test_foreign_pages_are_long_enough_to_identify_their_language(inputs: tuple[Path, Truth], pages: Pages) -> None:
    """Every page in another language has 150 words or 500 non-ASCII characters."""
    _, truth = inputs
    for plant in truth.plants["foreign_language"]:
        text = text_of(pages[str(plant.url), str(plant.snapshot)][1])
        assert len(text.split()) >= 150 or sum(c > "\x7f" for c in text) >= 500, plant


def test_bad_lines_and_files_match_the_truth(inputs: tuple[Path, Truth]) -> None:
    """Lines that are not JSON, empty files and files that are not text are exactly those of the truth."""
    folder, truth = inputs
    bad: Counter[str] = Counter()
    for path in sorted((folder / "reference").iterdir()):
        for line in zstd.decompress(path.read_bytes()).splitlines():
            try:
                record = json.loads(line.decode("utf-8"))
                assert set(record) == {"id", "title", "text", "url"}
            except ValueError:
                bad[path.relative_to(folder).as_posix()] += 1
    assert bad == Counter(p.path for kind in ("bad_json_line", "invalid_utf8_line") for p in truth.plants[kind])
    empty, binary = set(), set()
    for path in (path for path in (folder / "code").rglob("*") if path.is_file()):
        content = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        if not content:
            empty.add(name)
        elif b"\x00" in content:
            binary.add(name)
    assert empty == {p.path for p in truth.plants["empty_file"]}
    assert binary == {p.path for p in truth.plants["binary_file"]}
    assert (folder / "code/stdlib/LICENSE").is_file()


def test_a_folder_that_is_not_empty_is_rejected(tmp_path: Path) -> None:
    """Demo inputs never mix with other files."""
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="not empty"):
        build(tmp_path)
    assert files(tmp_path) == ["mine.txt"]
