"""The crawl under construction: responses by snapshot, and the truth about them."""

from dataclasses import dataclass, field
from random import Random

from demo.articles import Article
from demo.pages import SITES, Site, dated, render, url_of
from demo.truth import Plant, Truth
from demo.warc import Response

SNAPSHOTS = {"2026-09": "September", "2026-10": "October"}
FIRST, SECOND = SNAPSHOTS


@dataclass(slots=True)
class Crawl:
    truth: Truth
    reserve: list[Article]
    """Articles that no good page uses: each carries one plant, so that plants cannot affect each other."""
    sites: list[Site] = field(default_factory=lambda: [Site(host, name) for host, name in SITES.items()])
    pages: dict[str, list[Response]] = field(default_factory=lambda: {name: [] for name in SNAPSHOTS})
    planted: int = 0

    def rng(self, *names: object) -> Random:
        """Separate random numbers for each purpose, so that one more plant changes nothing else."""
        return Random("/".join(map(str, (self.truth.seed, *names))))

    def number(self, full: int) -> int:
        """The number of plants at this scale; `full` is the number at scale 1."""
        return max(2, round(full * self.truth.scale))

    def site_of(self, article: Article) -> Site:
        return Random(article.name).choice(self.sites)

    def url(self, article: Article) -> str:
        return url_of(article, self.site_of(article).host)

    def html(self, article: Article, snapshot: str, lang: str = "en", charset: str | None = "utf-8") -> str:
        rng = self.rng("page", article.name)
        day = self.rng("day", article.name, snapshot).randint(1, 28)
        if lang == "en":
            article = dated(article, day, SNAPSHOTS[snapshot])
        return render(article, self.site_of(article), rng, lang, charset)

    def add_good(self, article: Article, snapshot: str) -> None:
        url = self.url(article)
        self.pages[snapshot].append(Response(url, self.html(article, snapshot).encode()))
        self.truth.good.append((url, snapshot))

    def next_snapshot(self) -> str:
        self.planted += 1
        return (FIRST, SECOND)[self.planted % 2]

    def plant(self, kind: str, response: Response, snapshot: str, **known: str | None) -> None:
        self.pages[snapshot].append(response)
        self.truth.plants[kind].append(Plant(response.url, snapshot, **known))

    def plant_page(self, kind: str, article: Article, **known: str | None) -> None:
        """Adds an article with a defect in its text as an ordinary page."""
        snapshot = self.next_snapshot()
        self.plant(kind, Response(self.url(article), self.html(article, snapshot).encode()), snapshot, **known)
