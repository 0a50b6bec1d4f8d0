"""Builds the demo inputs: a crawl, reference prose, code, an eval suite and scored texts, from the running Python
alone.

Nothing is downloaded. The same version of Python and its libraries and the same seed give the same bytes in every file.
Scale 1 gives about 27 MB of HTML in two snapshots and one page of 20 MB, 0.5 MB of reference and 8 MB of code. It takes
about eight seconds of one core.
"""

from datetime import UTC, datetime
from pathlib import Path

from demo import evals, warc
from demo.articles import Article, articles
from demo.broken import cut_page, plant_broken
from demo.crawl import FIRST, SECOND, SNAPSHOTS, Crawl
from demo.files import write_code, write_reference
from demo.listings import listings
from demo.plants import plant_texts
from demo.sales import write_judged
from demo.truth import KINDS, Plant, Truth
from demo.warc import Response
from gristmill.errors import UserError

ARTICLES = 700
"""More than any Python has so far: about 645 in 3.11, 580 in 3.13."""
RESERVED = 190
"""Articles for plants: each plant in a text takes one, 177 at scale 1."""
PARTS = 4
"""Archives per snapshot."""


def build(folder: Path, seed: int = 0, scale: float = 1.0) -> Truth:
    """Writes everything below `folder`, which must be new or empty; `truth.json` comes last."""
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty. Demo inputs would mix with what is there. Name another folder.")
    truth = Truth(seed, scale)
    crawl, good = _start(truth)
    both = _add_good(crawl, good)
    items = evals.suite(crawl.rng("evals"))
    evals.write(folder / "evals", items)
    plant_texts(crawl, both, items)
    plant_broken(crawl)
    _add_listings(crawl)
    for snapshot in SNAPSHOTS:
        _write_snapshot(crawl, snapshot, folder)
    write_judged(folder / "quality", crawl.rng("judged"), good)
    write_reference(folder / "reference", truth)
    write_code(folder / "code", truth)
    truth.good.sort()
    truth.write(folder / "truth.json")
    return truth


def _start(truth: Truth) -> tuple[Crawl, list[Article]]:
    crawl = Crawl(truth, [])
    found = articles(max(150, round(ARTICLES * truth.scale)), crawl.rng("articles"))
    reserved = RESERVED if truth.scale >= 1 else 50 + round((RESERVED - 50) * truth.scale)
    if len(found) < 2 * reserved:
        raise UserError(
            f"The standard library gives {len(found)} articles, and the demo needs {2 * reserved}. Was its source "
            "left out of this installation? Use a Python that has it."
        )
    crawl.reserve = found[:reserved]
    for article in found:
        crawl.site_of(article).links.append(article.name)
    return crawl, found[reserved:]


def _add_good(crawl: Crawl, good: list[Article]) -> list[Article]:
    """Three pages in four are in both snapshots, one in ten disappears, the others are new. Returns those in both."""
    both = []
    for article in good:
        fate = crawl.rng("fate", article.name).random()
        if fate >= 0.15:
            crawl.add_good(article, FIRST)
        if fate < 0.15 or fate >= 0.25:
            crawl.add_good(article, SECOND)
        if fate >= 0.25:
            both.append(article)
    return both


def _add_listings(crawl: Crawl) -> None:
    for name, page in listings(crawl.number(40)):
        for snapshot in SNAPSHOTS:
            url = f"https://www.stdlib-guide.example/pydoc/{name}.html"
            crawl.pages[snapshot].append(Response(url, page.encode("utf-8", "replace")))
            crawl.truth.other.append((url, snapshot))


def _write_snapshot(crawl: Crawl, snapshot: str, folder: Path) -> None:
    """Distributes the pages over archives. One of the first snapshot is damaged in its middle, one of the second at its
    end.
    """
    pages = crawl.pages[snapshot]
    crawl.rng("order", snapshot).shuffle(pages)
    year, month = map(int, snapshot.split("-"))
    for part in range(PARTS):
        dealt = pages[part::PARTS]
        if snapshot == FIRST and part == 1:
            dealt.insert(len(dealt) // 2, cut_page(crawl, snapshot))
        if snapshot == SECOND and part == PARTS - 1:
            dealt.append(cut_page(crawl, snapshot))
        path = folder / "crawl" / snapshot / f"part-{snapshot.replace('-', '')}-{part:05}.warc.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        for damage in warc.write(path, dealt, datetime(year, month, 3 + part, tzinfo=UTC)):
            place = f"bytes {damage.offset} to {damage.offset + damage.length}"
            name = path.relative_to(folder).as_posix()
            crawl.truth.plants["truncated_gzip"].append(Plant(damage.url, snapshot, name, note=place))


def summary(folder: Path, truth: Truth) -> str:
    """The content of the folder in one line."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    planted = f"{sum(len(truth.plants[kind]) for kind in KINDS)} planted defects of {len(KINDS)} kinds"
    return f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB; {len(truth.good)} good pages, {planted}"
