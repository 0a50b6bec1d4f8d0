"""Defects in the text of pages: copies, boilerplate, personal data, secrets, eval items, gibberish, spam, sales talk,
languages.

Everything is generated from the seed: the addresses, keys and secrets have the right shape and open nothing.
"""

import ipaddress
import string
from base64 import b64encode
from dataclasses import replace
from random import Random

from demo import evals
from demo.articles import Article, Block, jaccard
from demo.crawl import Crawl
from demo.languages import LANGUAGES, foreign
from demo.pages import MIRRORS
from demo.sales import sales_page
from demo.warc import Response

NEAR_COPY_WORDS = 250
"""Minimum number of words of the original of a near copy: one edit in a shorter page makes it no near copy."""
WORDS_PER_EDIT = 150
"""One changed word breaks five 5-grams: one in 150 words leaves a Jaccard similarity of about 0.93."""

_LINES = (
    "This site uses cookies to give you the best experience, and by reading on you accept them.",
    "Subscribe to our newsletter and get a fresh article in your inbox every Monday morning!",
    "Did you like this page? Share it with your friends and follow us on all channels.",
    "Advertisement: support our work by switching off your ad blocker on this website.",
)
_SUBSTITUTES = [
    "certain",
    "ordinary",
    "separate",
    "current",
    "general",
    "particular",
    "further",
    "common",
    "familiar",
    "recent",
]
_FIRST = ["maria", "tom", "yuki", "pavel", "aisha", "bruno", "lena", "carlos", "nadia", "oskar"]
_LAST = ["keller", "osei", "tanaka", "novak", "haddad", "ferrari", "lindqvist", "moreno", "petrova", "brandt"]
_MAIL_HOSTS = ["northfield-tools.com", "bluequarry.net", "kestrel-press.org", "data.rookwood.co.uk", "rechenwerk.de"]
_MAIL_LINES = (
    "Corrections to this page are welcome and should be sent to {} before the next review.",
    "The author can be reached at {} on most working days.",
    "Write to {} when an example does not behave as it is described here.",
)
_IP_LINES = (
    "The examples were last run on the build host {} under the account of the editors.",
    "A login from {} was the last change to this article.",
)
_SPAM = [
    "cheap",
    "best",
    "buy",
    "online",
    "discount",
    "casino",
    "bonus",
    "free",
    "pills",
    "loans",
    "watches",
    "replica",
    "offer",
    "deals",
    "price",
]


def plant_texts(crawl: Crawl, originals: list[Article], items: dict[str, list[evals.Item]]) -> None:
    """Plants all defects of this file. `originals` are good articles that are in both snapshots."""
    _copies(crawl, originals)
    for number in range(crawl.number(60)):
        line = _LINES[number % len(_LINES)]
        crawl.plant_page("boilerplate_line", _insert(crawl, Block("p", line)), text=line)
    for kind, full, lines, make in (("email", 24, _MAIL_LINES, _email), ("ip_address", 16, _IP_LINES, _address)):
        rng = crawl.rng(kind)
        for number in range(crawl.number(full)):
            found = make(rng)
            line = lines[number % len(lines)].format(found)
            crawl.plant_page(kind, _insert(crawl, Block("p", line)), text=found)
    rng = crawl.rng("secret")
    for number in range(crawl.number(20)):
        note, block, found = _secret(rng, number)
        crawl.plant_page("secret", _insert(crawl, Block("pre", block)), text=found, note=note)
    _eval_items(crawl, items)
    _junk(crawl)


def _insert(crawl: Crawl, block: Block) -> Article:
    """A reserved article with one more block after one of its paragraphs."""
    article = crawl.reserve.pop()
    places = [i for i, b in enumerate(article.blocks, 1) if b.tag == "p"]
    at = crawl.rng("insert", article.name).choice(places)
    return replace(article, blocks=(*article.blocks[:at], block, *article.blocks[at:]))


def _copies(crawl: Crawl, originals: list[Article]) -> None:
    long = [article for article in originals if len(article.words()) >= NEAR_COPY_WORDS]
    near = long[: crawl.number(40)]
    exact = [article for article in originals if article not in near][: crawl.number(40)]
    for number, article in enumerate(near + exact):
        snapshot = crawl.next_snapshot()
        url = f"https://{MIRRORS[number % len(MIRRORS)]}/docs/{article.name.replace('.', '-')}"
        page, kind, note = article, "exact_copy", None
        if number < len(near):
            page, kind = _reworded(article, crawl.rng("reword", article.name)), "near_copy"
            note = f"jaccard {jaccard(article.words(), page.words()):.2f}"
        body = crawl.html(page, snapshot).encode()
        crawl.plant(kind, Response(url, body), snapshot, original=crawl.url(article), note=note)


def _reworded(article: Article, rng: Random) -> Article:
    blocks = list(article.blocks)
    prose = [i for i, block in enumerate(blocks) if block.tag == "p"]
    for _ in range(max(1, len(article.words()) // WORDS_PER_EDIT)):
        at = rng.choice(prose)
        words = blocks[at].text.split()
        words[rng.randrange(len(words))] = rng.choice(_SUBSTITUTES)
        blocks[at] = Block("p", " ".join(words))
    return replace(article, blocks=tuple(blocks))


def _email(rng: Random) -> str:
    return f"{rng.choice(_FIRST)}.{rng.choice(_LAST)}{rng.randint(1, 99)}@{rng.choice(_MAIL_HOSTS)}"


def _address(rng: Random) -> str:
    while True:
        found = ipaddress.IPv4Address(rng.getrandbits(32))
        if found.is_global and not found.is_multicast:
            return str(found)


def _secret(rng: Random, number: int) -> tuple[str, str, str]:
    """(its kind, the lines that show it, the string that must not survive)."""
    letters = string.ascii_letters + string.digits
    match number % 4:
        case 0:
            key = "AKIA" + "".join(rng.choices(string.ascii_uppercase + "234567", k=16))
            secret = "".join(rng.choices(letters + "/+", k=40))
            return "aws", f"aws_access_key_id = {key}\naws_secret_access_key = {secret}", key
        case 1:
            key = "ghp_" + "".join(rng.choices(letters, k=36))
            return "github", f"export GITHUB_TOKEN={key}", key
        case 2:
            key = "AIza" + "".join(rng.choices(letters + "-_", k=35))
            return "google", f"api_key: {key}", key
    lines = [b64encode(rng.randbytes(48)).decode() for _ in range(12)]
    label = "RSA PRIVATE KEY-----"
    return "private_key", "\n".join([f"-----BEGIN {label}", *lines, f"-----END {label}"]), lines[5]


def _eval_items(crawl: Crawl, items: dict[str, list[evals.Item]]) -> None:
    problems, definitions, short = (list(items[name]) for name in ("arithmetic", "definitions", "short"))
    for found in (problems, definitions, short):
        crawl.rng("items").shuffle(found)
    for number in range(crawl.number(12)):
        item = (problems, definitions)[number % 2].pop()
        _plant_item(crawl, "eval_whole", item, f"Question: {item.question} Answer: {item.answer}.")
    for _ in range(crawl.number(8)):
        item = problems.pop()
        _plant_item(crawl, "eval_partial", item, f"A reader asks: {evals.partly(item)}")
        item = problems.pop()
        _plant_item(crawl, "eval_edited", item, evals.edited(item))
    for _ in range(crawl.number(6)):
        item = short.pop()
        _plant_item(crawl, "eval_short", item, f"{item.question} {item.answer.capitalize()}.")


def _plant_item(crawl: Crawl, kind: str, item: evals.Item, text: str) -> None:
    crawl.plant_page(kind, _insert(crawl, Block("p", text)), item=item.id, text=text)


def _junk(crawl: Crawl) -> None:
    rng = crawl.rng("junk")
    for number in range(crawl.number(16)):
        words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 11))) for _ in range(200)]
        blocks = tuple(Block("p", " ".join(words[i : i + 40]) + ".") for i in range(0, len(words), 40))
        crawl.plant_page("gibberish", Article(f"item.{number}", f"{words[0]} {words[1]}", blocks))
    for number in range(crawl.number(12)):
        words = rng.sample(_SPAM, 5)
        blocks = tuple(Block("p", ", ".join(rng.choices(words, k=60))) for _ in range(5))
        crawl.plant_page("keyword_spam", Article(f"offers.{number}", " ".join(words), blocks))
    for number in range(crawl.number(24)):
        crawl.plant_page("sales_talk", sales_page(crawl.rng("sales", str(number)), f"deals.{number}"))
    for number in range(max(len(LANGUAGES), crawl.number(24))):
        lang = LANGUAGES[number % len(LANGUAGES)]
        article, snapshot = foreign(lang, rng, number), crawl.next_snapshot()
        body = crawl.html(article, snapshot, lang).encode()
        crawl.plant("foreign_language", Response(crawl.url(article), body), snapshot, note=lang)
