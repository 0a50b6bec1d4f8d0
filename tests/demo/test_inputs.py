"""What the demo inputs promise: reproducible, accounted for to the last page, no trace of the machine."""

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
import zstandard
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
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("demo") / "inputs"
    return folder, build(folder, seed=3, scale=SCALE)


@pytest.fixture(scope="module")
def pages(made: tuple[Path, Truth]) -> Pages:
    """Headers and body of every response that can be read, with the cut members taken out."""
    folder, truth = made
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
def test_a_build_in_another_process_has_the_same_bytes(made: tuple[Path, Truth], tmp_path: Path) -> None:
    """The order of sets, which changes from process to process, reaches no file."""
    folder, _ = made
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


def test_every_response_is_good_or_listed_or_planted(made: tuple[Path, Truth], pages: Pages) -> None:
    """Nothing in the archives is unaccounted for, and nothing in the truth is absent from them."""
    _, truth = made
    planted = [(p.url, p.snapshot) for kind in KINDS for p in truth.plants[kind] if p.url and not p.path]
    told = Counter([*truth.good, *truth.other, *planted])
    assert told == Counter(pages.keys())


def test_every_kind_of_defect_is_planted_and_the_file_says_so(made: tuple[Path, Truth]) -> None:
    """The truth on disk is the truth returned, has every kind, and its numbers are right."""
    folder, truth = made
    assert Truth.read(folder / "truth.json") == truth
    assert all(truth.plants[kind] for kind in KINDS)
    kinds = json.loads((folder / "truth.json").read_text("utf-8"))["kinds"]
    assert {kind: found["number"] for kind, found in kinds.items()} == {k: len(truth.plants[k]) for k in KINDS}


def test_archives_break_at_the_planted_damage_only(made: tuple[Path, Truth], pages: Pages) -> None:
    """One archive is cut in its middle with records after it, one at its end; others read to the end."""
    folder, truth = made
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


def test_no_page_tells_where_it_was_made(made: tuple[Path, Truth], pages: Pages) -> None:
    """No path of the installation, no home folder, no memory address in any page or record."""
    folder, _ = made
    traces = {sysconfig.get_path("stdlib"), str(Path.home()) + "/", str(folder), os.getcwd(), "file:///"}
    address = re.compile(rb"0x[0-9a-fA-F]{8,}")
    for (url, _), (_, body) in pages.items():
        assert not address.search(body), url
        assert not any(trace.encode() in body for trace in traces), url
    assert not any(trace in (folder / "truth.json").read_text("utf-8") for trace in traces)


def test_good_pages_are_far_from_each_other(made: tuple[Path, Truth], pages: Pages) -> None:
    """No two good pages of a snapshot share half of their word 5-grams after extraction."""
    _, truth = made
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


def test_good_pages_read_as_prose(made: tuple[Path, Truth], pages: Pages) -> None:
    """What an extractor makes of a good page passes the plainest rules of Gopher and C4."""
    _, truth = made
    for page in truth.good:
        text = text_of(pages[page][1])
        words = text.split()
        assert len(words) >= 100, page
        assert 3 <= sum(map(len, words)) / len(words) <= 10, page
        assert len(STOP_WORDS.intersection(word.lower() for word in words)) >= 2, page
        assert len(re.findall(r"[.!?](?:\s|$)", text)) >= 5, page
        assert "{" not in text, page


def test_copies_copy_and_near_copies_nearly_do(made: tuple[Path, Truth], pages: Pages) -> None:
    """An exact copy has the bytes of its original; a near copy has other words and a similarity above 0.8."""
    _, truth = made
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


def test_planted_strings_are_in_the_text_before_anything_takes_them_out(made: tuple[Path, Truth], pages: Pages) -> None:
    """Extraction leaves e-mail addresses, secrets, boilerplate and eval items in, and no good page has any."""
    _, truth = made
    good = "\n".join(" ".join(text_of(pages[page][1]).split()) for page in truth.good)
    kinds = [k for k, kind in KINDS.items() if kind.sign is Sign.GONE or k.startswith("eval_")]
    for kind in kinds:
        for plant in truth.plants[kind]:
            assert plant.text
            text = " ".join(text_of(pages[str(plant.url), str(plant.snapshot)][1]).split())
            assert " ".join(plant.text.split()) in text
            assert plant.text not in good
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", good)


def test_copied_eval_items_can_be_found(made: tuple[Path, Truth]) -> None:
    """Partial and edited copies keep four fifths of their item's 13-grams; short items have no 13-gram."""
    folder, truth = made
    lines = [line for path in sorted((folder / "evals").glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    items = {item["id"]: item for item in map(json.loads, lines)}
    assert len(items) == len(lines) >= 60

    def grams(text: str) -> set[str]:
        return shingles(re.findall(r"\w+", text.lower()), 13)

    for kind in ("eval_whole", "eval_partial", "eval_edited"):
        for plant in truth.plants[kind]:
            item = items[plant.item]
            asked = grams(item["question"])
            assert len(asked & grams(str(plant.text))) >= 0.8 * len(asked) > 0
            assert (item["question"] in str(plant.text)) == (kind == "eval_whole")
    for plant in truth.plants["eval_short"]:
        assert items[plant.item]["question"] in str(plant.text)
        assert not grams(items[plant.item]["question"])


def test_broken_pages_are_broken_as_told(made: tuple[Path, Truth], pages: Pages) -> None:
    """Sizes, depth, status codes, bad bytes and encodings are what their kind says."""
    _, truth = made
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
        codec, told = str(plant.note).split(", told ")
        headers, body = pages[str(plant.url), str(plant.snapshot)]
        assert str(plant.text) in body.decode(codec)
        assert (codec in headers["content-type"], f'charset="{codec}"'.encode() in body) == (
            told == "http",
            told == "meta",
        )
        with pytest.raises(UnicodeDecodeError):
            body.decode("utf-8")


def test_foreign_pages_are_long_enough_to_tell_their_language(made: tuple[Path, Truth], pages: Pages) -> None:
    """Every page in another language has 150 words or 500 characters outside ASCII."""
    _, truth = made
    for plant in truth.plants["foreign_language"]:
        text = text_of(pages[str(plant.url), str(plant.snapshot)][1])
        assert len(text.split()) >= 150 or sum(c > "\x7f" for c in text) >= 500, plant


def test_lines_and_files_are_bad_where_told(made: tuple[Path, Truth]) -> None:
    """Lines that are no JSON, files that are empty and files that are no text are those of the truth."""
    folder, truth = made
    bad: Counter[str] = Counter()
    for path in sorted((folder / "reference").iterdir()):
        for line in zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read().splitlines():
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


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    """Demo inputs never mix with other files."""
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UserError, match="not empty"):
        build(tmp_path)
    assert files(tmp_path) == ["mine.txt"]
