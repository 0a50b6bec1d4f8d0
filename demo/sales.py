"""Sales talk: prose that no rule about words and lines can distinguish from good text, and scored texts to learn it
from.

Sentences are composed of short pieces, so that many pages share no passage: a classifier must learn what such pages are
about, and not one slogan.
"""

import json
from pathlib import Path
from random import Random

from demo.articles import Article, Block

JUDGED = 60
"""The number of scored texts of each kind."""
SITES = 12

_WHO = (
    "our happy customers", "busy parents", "every modern family", "smart shoppers", "you and your guests",
    "people with taste", "thousands of buyers", "your loved ones", "all our members", "home owners everywhere",
    "anyone on a budget", "the whole household", "young couples", "collectors and fans", "our loyal friends",
)  # fmt: skip
_LOVE = (
    "will adore", "cannot resist", "keep coming back for", "are raving about", "deserve", "have fallen for",
    "simply must try", "love to unwrap", "save big with", "feel better with", "will be amazed by", "recommend",
    "never leave home without", "wake up happier with", "are switching to",
)  # fmt: skip
_WHAT = (
    "this luxurious mattress", "the silky night cream", "our scented candles", "these leather sandals",
    "the nonstick pan", "a handmade necklace", "the cordless vacuum", "our herbal slimming tea", "this cosy blanket",
    "the espresso machine", "these designer sunglasses", "our vitamin gummies", "the garden lounge set",
    "a sparkling bracelet", "the memory foam pillow", "our premium dog treats", "this elegant handbag",
    "the teeth whitening kit", "our organic shampoo", "these running shoes",
)  # fmt: skip
_WHY = (
    "because it ships free", "and the price is unbeatable", "with a lifetime warranty", "while stocks last",
    "in five gorgeous colours", "at half the usual cost", "with free returns", "and the reviews are glowing",
    "since it arrives tomorrow", "with interest free payments", "before the sale ends", "for a limited time",
    "and it smells divine", "so treat yourself today", "with every coupon accepted", "as seen on television",
)  # fmt: skip
_CALL = (
    "Hurry to the checkout", "Grab your voucher", "Order tonight", "Add it to your basket", "Claim the bonus gift",
    "Tap the button below", "Visit our showroom", "Ask for the catalogue", "Pick your favourite shade",
    "Join the rewards club", "Redeem the gift card", "Call our hotline",
)  # fmt: skip
_ENDS = ("!", ".", "!", ".", ".")


def sales_page(rng: Random, name: str) -> Article:
    """A page of a few paragraphs."""
    blocks = tuple(Block("p", " ".join(_sentence(rng) for _ in range(rng.randint(3, 5)))) for _ in range(5))
    return Article(name, rng.choice(_WHAT).capitalize(), blocks)


def _sentence(rng: Random) -> str:
    who, love, what, why = (rng.choice(some) for some in (_WHO, _LOVE, _WHAT, _WHY))
    if rng.random() < 0.3:
        return f"{rng.choice(_CALL)} {why}, and see why {who} {love} {what}{rng.choice(_ENDS)}"
    return f"{who.capitalize()} {love} {what} {why}{rng.choice(_ENDS)}"


def write_judged(folder: Path, rng: Random, good: list[Article]) -> None:
    """Texts scored from 0 to 5: sales talk of shops that are not in the crawl, and good pages."""
    folder.mkdir(parents=True)
    records = []
    for number in range(JUDGED):
        page = sales_page(rng, f"shop.{number}")
        url = f"https://shop-{number % SITES}.example/{number}"
        records.append({"url": url, "text": _text(page), "score": rng.choice((0, 0, 1))})
    for number, article in enumerate(good[:JUDGED]):
        url = f"https://handbook-{number % SITES}.example/{number}"
        records.append({"url": url, "text": _text(article), "score": rng.choice((4, 5, 5))})
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    (folder / "judged.jsonl").write_text("".join(lines), "utf-8")


def _text(article: Article) -> str:
    return "\n\n".join([article.title, *(block.text for block in article.blocks)])
