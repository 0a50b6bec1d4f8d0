"""Whether `gristmill ablate` tells the truth, and what each default of recipes/web.yaml does to a small model.

    python -m bench._directions prepare DATA FOLDER                       runs 21 recipes; needs gristmill
    python -m bench._directions train FOLDER --budget 500 --out OUT       needs numpy, torch and a GPU only
    python -m bench._directions summary FOLDER OUT/results.jsonl          verdicts, as Markdown

`prepare` writes recipes and their inputs to FOLDER/work, runs them, and saves what a proxy trains on: `pools.npz` and
`items.npz` (the only files that `train` needs). Pieces of text that several corpora share are saved once. `train` runs
the jobs in the order of their importance, appends a line to `results.jsonl` after each, and starts no job that would
end after the budget. Run it again with the same OUT to continue.
"""

import argparse
import hashlib
import json
import math
import random
import re
import sys
import time
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from gristmill.proxy.items import Items
from gristmill.proxy.pool import GRAM, Pool, gram_hashes, mixed
from gristmill.proxy.stream import Training

ROOT = Path(__file__).parents[1]
PAGES_OF_SITES = 0.15
"""The share of the sites with a reference text whose pages are held out."""
TEXT_CHARS, TASK_TOKENS = 3000, 35_000
"""Of an item of held-out text, and of a task."""
VOCAB = 16_000
LONG_DRAW, SHORT_DRAW = 16_000_000, 2_000_000
"""Tokens of the real training: manuals and novels are drawn about 4 times, pages 1 to 2 times."""
LEAKED = 0.15
"""The share of the benchmark items in the contaminated corpus."""


def share_of(text):
    """A number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


# ---------------------------------------------------------------- inputs


def read_rows(path):
    import zstandard

    raw = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
    return [json.loads(line) for line in raw.split(b"\n") if line]


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def english_texts(data):
    """(domain, id, text) of manuals and novels; novels are cut into chapters of 20,000 characters."""
    found = []
    for name in ("gutenberg-en", "mdn-en", "dotnet-docs", "sql-docs", "latex-math", "github-docs"):
        for row in read_rows(data / "text" / f"{name}.jsonl.zst"):
            step = 20_000 if name == "gutenberg-en" else 10**9
            for start in range(0, len(row["text"]), step):
                found.append((name, f"{row['id']}#{start}", row["text"][start : start + step]))
    return found


def other_texts(data, only_code):
    if only_code:
        return [row["text"] for row in read_rows(data / "text" / "code.jsonl.zst")]
    rows = [
        *read_rows(data / "text" / "mdn-translated.jsonl.zst"),
        *read_rows(data / "text" / "bible-corpus.jsonl.zst"),
    ]
    return [row["text"] for row in sorted(rows, key=lambda row: share_of(row["id"]))]


def up_to(texts, chars):
    found, size = [], 0
    for text in texts:
        if size >= chars:
            break
        found.append(text)
        size += len(text)
    return found


def write_text_corpora(data, inputs, megabytes):
    """Variants of the same manuals and novels, and the held-out ones."""
    rng = random.Random(1)
    texts = english_texts(data)
    held = [one for one in texts if share_of(one[1].partition("#")[0]) < 0.08]
    kept = [one for one in texts if share_of(one[1].partition("#")[0]) >= 0.08]
    kept.sort(key=lambda one: share_of(one[1]))
    clean, size = [], 0
    for one in kept:
        if size < megabytes * 1e6:
            clean.append(one)
            size += len(one[2])
    plain = [text for _, _, text in clean]

    def shuffled(text):
        words = text.split(" ")
        rng.shuffle(words)
        return " ".join(words)

    def gibberish(chars):
        letters = "abcdefghijklmnopqrstuvwxyz"
        word = lambda: "".join(rng.choices(letters, k=rng.randint(2, 9)))  # noqa: E731
        return up_to((" ".join(word() for _ in range(500)) for _ in iter(int, 1)), chars)

    def part(share, salt):
        return [text for text in plain if share_of(salt + text[:200]) < share]

    foreign, code = other_texts(data, False), other_texts(data, True)
    items = [row for row in benchmark_rows(data) if share_of(row["question"]) < LEAKED]
    answered = [f"{row['question']} {row['answer']}" for row in items]
    corpora = {
        "clean": plain,
        "copies": part(0.1, "t") * 10,
        "shuffled": [shuffled(text) for text in plain],
        "contaminated": plain + answered,
        "half": part(0.5, "h"),
        "shuffled_10": [shuffled(text) if share_of("s" + text[:200]) < 0.1 else text for text in plain],
        "copies_some": plain + part(0.1, "c") * 9,
        "no_novels": [text for name, _, text in clean if name != "gutenberg-en"],
    }
    corpora |= {"gibberish": gibberish(size / 4), "foreign": up_to(foreign, size / 3), "code": code}
    for name, held_texts in corpora.items():
        write_rows(inputs / f"{name}.jsonl", [{"id": f"{name} {n}", "text": text} for n, text in enumerate(held_texts)])
    write_rows(inputs / "reference.jsonl", [{"id": one[1], "text": one[2]} for one in kept[::4]])
    return held


def benchmark_rows(data):
    """Multiple choice: question, right answer, choices, and the benchmark."""
    for name in ("arc_easy", "piqa"):
        for row in read_rows(data / "bench" / f"llmfoundry__{name}.jsonl.zst"):
            choices = [choice.strip() for choice in row["choices"]]
            yield {"benchmark": name, "question": row["query"], "answer": choices[row["gold"]], "choices": choices}


def write_crawl(data, inputs):
    """Web pages without those of the held-out sites, and versions of the same manual as four snapshots."""
    pages = read_rows(data / "warc" / "pages_index.jsonl.zst")
    gold = {row["warc_record_id"]: row.get("text") for row in read_rows(data / "gold" / "extraction_gold.jsonl.zst")}

    def site(page):
        found = re.sub(r"^\w+://(www\.)?", "", page["url"]).partition("/")[0]
        return page["url"] if found.endswith(".invalid") else found

    apart = {page["warc_record_id"] for page in pages if gold.get(page["warc_record_id"])}
    sites = {site(page) for page in pages if page["warc_record_id"] in apart and share_of(site(page)) < PAGES_OF_SITES}
    held = {page["warc_record_id"] for page in pages if site(page) in sites}
    texts = [
        gold[page["warc_record_id"]]
        for page in pages
        if page["warc_record_id"] in held & apart and page["lang"] == "en"
    ]
    folder = inputs / "crawl" / "2020"
    folder.mkdir(parents=True, exist_ok=True)
    plain = []
    for path in sorted((data / "warc").glob("*.warc.gz")):
        with (folder / path.name).open("wb") as file:
            for member, record in members(path.read_bytes()):
                found = re.search(rb"WARC-Record-ID: (\S+)", record)
                if found and found[1].decode() in held:
                    continue
                file.write(member)
                if b"WARC-Type: response" in record[:1000]:
                    html = record.split(b"\r\n\r\n", 2)[2]
                    url = re.search(rb"WARC-Target-URI: (\S+)", record)[1].decode("utf-8", "replace")
                    plain.append({"id": found[1].decode(), "url": url, "text": all_text(html)})
    versions = defaultdict(list)
    for row in read_rows(data / "neardup" / "k8s_versions.jsonl.zst"):
        versions[row["id"].split("/")[1][:4]].append(row)
    for year, rows in versions.items():
        found = [{"id": row["id"], "url": row["url"], "html": as_page(row, rows[:40])} for row in rows]
        write_rows(inputs / "manual" / year / "pages.jsonl", found)
        plain += [{**row, "text": all_text(row.pop("html").encode()), "year": year} for row in found]
    for year in {row.setdefault("year", "2020") for row in plain}:
        write_rows(inputs / "plain" / year / "pages.jsonl", [row for row in plain if row["year"] == year])
    return [text for text in texts if len(text) > 500]


def as_page(row, others):
    """A page of the manual, from its Markdown source: a title, links to other pages, the text and a footer."""
    from markdown_it import MarkdownIt

    source = re.sub(r"\A---\n.*?\n---\n|\{\{[<%].*?[%>]\}\}", "", row["text"], flags=re.S)  # header, templates
    body = MarkdownIt().enable("table").render(source)
    name = _title(row)
    links = "".join(f'<li><a href="{one["url"]}">{_title(one)}</a></li>' for one in others)
    foot = "<footer>Was this page helpful? Yes No. Edit this page. Create an issue. Copyright The Authors</footer>"
    main = f"<main><h1>{name}</h1>{body}</main>"
    return (
        f"<html lang=en><head><title>{name}</title></head><body><nav><ul>{links}</ul></nav>{main}{foot}</body></html>"
    )


def _title(row):
    return row["url"].partition("?")[0].rpartition("/")[2].replace("-", " ")


def members(raw):
    """The gzip members of a file, each with what it holds."""
    while raw:
        reader = zlib.decompressobj(31)
        held = reader.decompress(raw)
        yield raw[: len(raw) - len(reader.unused_data)], held
        raw = reader.unused_data


def all_text(html):
    """The text of all tags but script and style, as `soup.get_text()` gives it."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    text = bytes_to_str(html, detect_encoding(html, from_html_meta=True))
    return extract_plain_text(text, main_content=False, alt_texts=False, preserve_formatting=False).replace("\x00", "")


def write_suite(data, inputs, held, pages):
    """Held-out texts by domain, and two benchmarks."""
    folder = inputs / "suite"
    by_task = defaultdict(list)
    for name, where, text in held:
        if name != "github-docs":
            by_task[name].append({"id": where, "text": text[:TEXT_CHARS]})
    by_task["pages"] = [{"id": str(number), "text": text[:TEXT_CHARS]} for number, text in enumerate(pages)]
    lines = ["suite: directions", 'version: "1"', "benchmarks:"]
    for name, rows in sorted(by_task.items()):
        rows.sort(key=lambda row: share_of(row["id"]))
        write_rows(folder / f"{name}.jsonl", rows[:80])
        lines.append(f"  {name}: {{files: {name}.jsonl, question: text, id: id}}")
    for name in ("arc_easy", "piqa"):
        rows = [row for row in benchmark_rows(data) if row["benchmark"] == name]
        rows.sort(key=lambda row: share_of("q" + row["question"]))
        write_rows(folder / f"{name}.jsonl", [{**row, "id": str(n)} for n, row in enumerate(rows[:500])])
        lines.append(f"  {name}: {{files: {name}.jsonl, question: question, answer: answer, choices: choices, id: id}}")
    (folder / "suite.yaml").write_text("\n".join(lines) + "\n")


# ---------------------------------------------------------------- recipes


ADDED = {"gibberish": ("gibberish", 0.2), "foreign": ("foreign", 0.3), "gibberish_10": ("gibberish", 0.1)}
ADDED |= {"foreign_5": ("foreign", 0.05), "with_code": ("code", 0.2)}
"""Corpora of clean text and something else, with its share of the tokens."""


def tokenizer_recipe(inputs):
    return {
        "recipe": "clean",
        "sources": {"docs": {"kind": "text", "read": jsonl(inputs / "clean.jsonl"), "domain": "docs"}},
        "steps": [],
        "tokenizer": {"train": {"vocab": VOCAB, "sample_bytes": {"docs": "12MB"}}},
        "shards": {"seq_len_tokens": 1024},
    }


def jsonl(*paths, **fields):
    return {"format": "jsonl", "paths": [str(path) for path in paths], "fields": {"key": "id", **fields}}


def web_recipe(name, inputs):
    """recipes/web.yaml as it is, with these inputs."""
    import yaml

    made = yaml.safe_load((ROOT / "recipes" / "web.yaml").read_text("utf-8"))
    snapshot = made["sources"]["crawl"]["read"]["snapshot"]
    made["sources"]["crawl"]["read"]["paths"] = [str(inputs / "crawl" / "*" / "*.warc.gz")]
    pages = {**jsonl(inputs / "manual" / "*" / "*.jsonl", html="html", text=None), "snapshot": snapshot}
    made["sources"]["manual"] = {"kind": "web", "read": pages, "domain": "web", "tier": "B"}
    learnt = made["quality"]["classifiers"]["edu"]
    learnt["positives"]["files"] = [str(inputs / "reference.jsonl")]
    learnt["negatives"]["sources"] = list(made["sources"])
    made["recipe"] = name
    return made


def name_of(step):
    return step if isinstance(step, str) else next(iter(step))


def without(*names):
    def change(recipe, inputs):
        recipe["steps"]["web"] = [step for step in recipe["steps"]["web"] if name_of(step) not in names]
        if "quality" in names:
            del recipe["quality"]

    return change


def with_settings(step, **settings):
    def change(recipe, inputs):
        for number, one in enumerate(recipe["steps"]["web"]):
            if name_of(one) == step:
                before = one[step] if isinstance(one, dict) else {}
                recipe["steps"]["web"][number] = {step: {**before, **settings}}

    return change


def without_rules(*rules):
    def change(recipe, inputs):
        for one in [step["heuristics"] for step in recipe["steps"]["web"] if name_of(step) == "heuristics"]:
            one["rules"] = [rule for rule in one.get("rules", []) if rule not in rules]
            for rule in rules:
                one.pop(rule, None)
            if not one["rules"]:
                del one["rules"]
        if "c4" in rules:
            without("lines")(recipe, inputs)

    return change


def plain_text(recipe, inputs):
    """The text of all tags of the same pages."""
    snapshot = recipe["sources"]["crawl"]["read"]["snapshot"]
    del recipe["sources"]["manual"]
    recipe["sources"]["crawl"]["read"] = {**jsonl(inputs / "plain" / "*" / "*.jsonl"), "snapshot": snapshot}
    recipe["quality"]["classifiers"]["edu"]["negatives"]["sources"] = ["crawl"]


def only_extract(recipe, inputs):
    kept = ("extract", "language", "keep_language")
    recipe["steps"]["web"] = [step for step in recipe["steps"]["web"] if name_of(step) in kept]
    del recipe["quality"]


def both(*changes):
    def change(recipe, inputs):
        for one in changes:
            one(recipe, inputs)

    return change


DEDUP = ("url_dedup", "exact_dedup", "line_dedup", "near_dedup")
ALL = without("quality", "keep_quality")
WEB = {
    "pages": only_extract,
    "pages_plain": both(plain_text, only_extract),
    "web": without(),
    "web_plain": plain_text,
    "web_resiliparse": with_settings("extract", tool="resiliparse"),
    "web_any_language": without("keep_language"),
    "web_no_gopher_repetition": without_rules("gopher_repetition"),
    "web_no_gopher_quality": without_rules("gopher_quality"),
    "web_no_c4": without_rules("c4"),
    "web_no_fineweb": without_rules("fineweb"),
    "web_no_rules": without("signals", "heuristics", "lines"),
    "web_no_dedup": without(*DEDUP),
    "web_quarter": with_settings("keep_quality", keep_best=0.25),
    "web_no_scrub": without("scrub"),
    "all": ALL,
    "all_no_dedup": both(ALL, without(*DEDUP)),
    "all_no_exact": both(ALL, without("url_dedup", "exact_dedup")),
    "all_no_line": both(ALL, without("line_dedup")),
    "all_no_near": both(ALL, without("near_dedup")),
    "all_near_global": both(ALL, with_settings("near_dedup", scope="global")),
}
"""Recipes of pages, and how each differs from recipes/web.yaml. `all` ones have no cutoff by quality."""
TEXT = ("clean", "copies", "shuffled", "contaminated", "half", "shuffled_10", "copies_some", "no_novels", *ADDED)
MIXED = ("mixed", "mixed_no_tiers", "mixed_cooldown", "mixed_better_last")
DRAWN_LONGER = ("long_all", "long_web", "long_all_no_dedup", "long_all_near_global")
"""Corpora of which four times as much is drawn."""
PIECE = 1024
"""Tokens of the longest piece of a document, as in shards of this sequence length."""


def run_recipe(work, recipe):
    """Run a recipe in this process; the corpus."""
    import gristmill

    path = work / f"{recipe['recipe']}.yaml"
    path.write_text(json.dumps({"store": str(work / "store"), **recipe}, indent=1))
    corpus = gristmill.open(path)
    corpus.run(executor="inline")
    return corpus


class Pieces:
    """Documents as tokens, each stored once, and corpora that draw them."""

    def __init__(self, encode, end):
        self._encode, self._end, self._documents = encode, end, {}
        self.tokens, self.starts, self.corpora = [], [0], {}

    def document(self, text):
        """The first piece, the number of pieces, the tokens and the key."""
        if text not in self._documents:
            ids = np.array([*self._encode(text), self._end], np.uint16)
            first, width = len(self.tokens), min(GRAM, len(ids))
            for start in range(0, len(ids), PIECE):
                self.tokens.append(ids[start : start + PIECE])
                self.starts.append(self.starts[-1] + len(self.tokens[-1]))
            key = mixed(gram_hashes(ids, width).min(keepdims=True))[0]
            self._documents[text] = (first, len(self.tokens) - first, len(ids), key)
        return self._documents[text]

    def add(self, name, phases):
        """A corpus. A phase is what it draws: (texts, tokens to draw, rates by text); and whether its rate falls.
        No number of tokens: every text once.
        """
        chosen, keys, numbers = [], [], []
        for number, (draws, _) in enumerate(phases):
            for texts, wanted, rates in draws:
                found = [self.document(text) for text in texts]
                there = sum(rate * size for rate, (_, _, size, _) in zip(rates, found, strict=True))
                for text, rate, (first, count, _, key) in zip(texts, rates, found, strict=True):
                    expected = rate * wanted / there if wanted else 1.0
                    # Exact copies round the same way, as they would in the pool of an ablation.
                    times = int(expected) + (share_of(f"{number} {text[:2000]}") < expected % 1)
                    for _ in range(times):
                        chosen += range(first, first + count)
                        keys += [key] * count
                        numbers += [number] * count
        self.corpora |= {f"{name}/chosen": np.array(chosen, np.int32), f"{name}/keys": np.array(keys, np.uint64)}
        self.corpora |= {f"{name}/phases": np.array(numbers, np.int8)}
        self.corpora[f"{name}/decay"] = np.array([falls for _, falls in phases])
        drawn = int(np.diff(self.starts)[self.corpora[f"{name}/chosen"]].sum())
        there = sum(len(text) for draws, _ in phases for texts, _, _ in draws for text in texts)
        print(f"{name}: {there / 1e6:.1f} M characters, draws {drawn / 1e6:.2f} M tokens", flush=True)


def even(texts, wanted):
    return texts, wanted, [1.0] * len(texts)


def text_of(path):
    return [json.loads(line)["text"] for line in path.read_text("utf-8").split("\n") if line]


def prepare(data, folder, megabytes):
    from gristmill.proxy.items import encode_items
    from gristmill.stages.decontaminate.suite.suite import read_suite
    from gristmill.stages.shards.special_ids import special_ids
    from gristmill.tokenizer.files import load

    work = folder / "work"
    inputs = work / "inputs"
    if not (inputs / "suite" / "suite.yaml").exists():
        pages = write_crawl(data, inputs)
        write_suite(data, inputs, write_text_corpora(data, inputs, megabytes), pages)
    if not (work / "tokenizer.json").exists():
        run_recipe(work, tokenizer_recipe(inputs))
        made = work / "store" / "shards" / "clean" / "latest" / "tokenizer.json"
        (work / "tokenizer.json").write_bytes(made.read_bytes())
    tokenizer = load(str(work / "tokenizer.json"))
    end, _ = special_ids(tokenizer, None, None)
    pieces = Pieces(tokenizer.encode_text, end)
    for name in TEXT:
        added, share = ADDED.get(name, ("", 0.0))
        draws = [even(text_of(inputs / f"{'clean' if added else name}.jsonl"), (1 - share) * LONG_DRAW)]
        draws += [even(text_of(inputs / f"{added}.jsonl"), share * LONG_DRAW)] if added else []
        pieces.add(name, [(draws, False)])
    kept = {}
    for name, change in WEB.items():
        recipe = web_recipe(name, inputs)
        change(recipe, inputs)
        kept[name] = run_recipe(work, recipe).documents(columns=["text"]).to_arrow()["text"].to_pylist()
        # A crawl is larger than the training that draws from it, so the pages that only extraction changes come once.
        pieces.add(name, [([even(kept[name], None if name.startswith("pages") else SHORT_DRAW)], False)])
    for name in (name.removeprefix("long_") for name in DRAWN_LONGER):
        pieces.add(f"long_{name}", [([even(kept[name], 4 * SHORT_DRAW)], False)])
    reference = text_of(inputs / "reference.jsonl")

    def phase(share, of_reference, short_rate, falls):
        """A phase of pages and reference text; pages under 400 words have another rate."""
        rates = [short_rate if len(text.split()) < 400 else 1.0 for text in kept["all"]]
        pages = (kept["all"], share * (1 - of_reference) * SHORT_DRAW, rates)
        return [pages, even(reference, share * of_reference * SHORT_DRAW)], falls

    pieces.add("mixed", [phase(1, 0.2, 0.5, False)])
    pieces.add("mixed_no_tiers", [phase(1, 0.2, 1, False)])
    pieces.add("mixed_cooldown", [phase(0.88, 0.2, 0.5, False), phase(0.12, 0.2, 0, True)])
    pieces.add("mixed_better_last", [phase(0.88, 0.14, 0.5, False), phase(0.12, 0.64, 0, True)])
    held = {"tokens": np.concatenate(pieces.tokens), "starts": np.array(pieces.starts)}
    np.savez_compressed(folder / "pools.npz", vocab=tokenizer.vocab_size, end=end, **held, **pieces.corpora)
    suite = sorted(read_suite(str(inputs / "suite")).items, key=lambda item: (item.benchmark, item.digest))
    items = encode_items(suite, tokenizer.encode_text, end, 512, TASK_TOKENS)
    items.save(folder / "items.npz")
    print({name: int((items.task == number).sum()) for number, name in enumerate(items.tasks)}, len(items.tokens))
    print(f"{(folder / 'pools.npz').stat().st_size / 2**20:.1f} MiB, {pieces.starts[-1]:,} tokens")


class Corpora:
    """The pools of all corpora."""

    def __init__(self, folder):
        with np.load(folder / "pools.npz") as held:
            self._held = {name: held[name] for name in held.files}

    def pool(self, name, tokens):
        """What a proxy of so many tokens trains on: the documents with the least keys, as `thin` chooses them."""
        held = self._held
        chosen, keys = held[f"{name}/chosen"], held[f"{name}/keys"]
        lengths = np.diff(held["starts"])[chosen]
        order = np.argsort(keys, kind="stable")
        enough = int(np.searchsorted(np.cumsum(lengths[order]), min(tokens, int(lengths.sum()))))
        kept = np.flatnonzero(keys <= keys[order[min(enough, len(order) - 1)]])
        parts = [held["tokens"][held["starts"][one] : held["starts"][one + 1]] for one in chosen[kept]]
        starts = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
        phases = held[f"{name}/phases"][kept].astype(np.int32)
        vocab, end = int(held["vocab"]), int(held["end"])
        return Pool(np.concatenate(parts), starts, keys[kept], phases, held[f"{name}/decay"], vocab, end)


# ---------------------------------------------------------------- trainings

ROWS = json.loads((ROOT / "src" / "gristmill" / "query" / "ablation" / "setups.json").read_text())["rows"]
DIRECTIONS = ("clean", "gibberish", "foreign", "copies", "shuffled", "contaminated")
ORDERED = ("clean", "gibberish_10", "foreign_5", "half", "shuffled_10", "copies_some", "with_code", "no_novels")
SMALL, LONG, LARGE = ("10m", 2_000_000), ("10m", 8_000_000), ("30m", 16_000_000)
PAGES, TINY = ("10m", 4_800_000), ("10m", 1_000_000)
PAIRS, PAIR_SEEDS = 40, 3
"""Comparisons of a corpus with itself."""


def job(corpus, setup, seed, masks=True):
    return {"corpus": corpus, "size": setup[0], "tokens": setup[1], "seed": seed, "masks": masks}


def all_jobs():
    """The most important first."""
    defaults = [*(name for name in WEB if not name.startswith("pages")), *MIXED]

    def tried(first, last):
        every = [(name, True) for name in defaults] + [("web", False)]
        return [job(name, SMALL, seed, masks) for seed in range(first, last) for name, masks in every]

    found = [job(name, LARGE, seed) for seed in range(5) for name in DIRECTIONS]
    found += [job(name, PAGES, seed) for seed in range(8) for name in ("pages", "pages_plain")]
    found += [job(name, SMALL, seed) for seed in range(3) for name in ORDERED]
    found += [job(name, LARGE, 0) for name in ORDERED if name not in DIRECTIONS]
    found += tried(0, 3)
    found += [job("clean", TINY, seed) for seed in range(2 * PAIRS * PAIR_SEEDS)]
    found += tried(3, 8)
    found += [job(name, LONG, seed) for seed in range(3) for name in DRAWN_LONGER]
    return found


def train_all(folder, out, budget, toy):
    import torch

    import gristmill.proxy.train as trainer
    from gristmill.proxy.evaluate import score

    began, device = time.time(), "cpu" if toy else "cuda"
    torch._dynamo.config.automatic_dynamic_shapes = False  # two sizes: each is compiled for its shapes
    mask_of = trainer.mask_of
    corpora, items = Corpora(folder), Items.load(folder / "items.npz")
    results = out / "results.jsonl"
    done = [line["job"] for line in map(json.loads, results.read_text().splitlines())] if results.exists() else []
    usual = {row["size"]: row for row in ROWS if row["hardware"] == ("cpu" if toy else "h200")}
    longest = {}
    for one in all_jobs():
        if one in done:
            continue
        start = time.time()
        kind = (one["size"], one["tokens"])
        if start - began + longest.get(kind, 0) > budget:
            print(f"the budget of {budget:.0f} s is used up; run this again with the same --out to continue")
            break
        size = "3m" if toy else one["size"]
        tokens = one["tokens"] // toy if toy else one["tokens"]
        fields = {name: usual[size][name] for name in ("sequence", "batch", "rate")}
        trainer.mask_of = mask_of if one["masks"] else (lambda documents: mask_of(documents * 0))
        pool = corpora.pool(one["corpus"], one["tokens"])
        snapshots, losses = trainer.train(pool, Training(size, tokens, one["seed"], device, **fields))
        trained = time.time()
        bits, _ = score(snapshots, size, pool.vocab, items, device)
        row = {"job": one, "loss": losses[-1], "train_s": round(trained - start, 2), "bits": bits.round(3).tolist()}
        if not all(map(math.isfinite, row["bits"])):
            sys.exit(f"{one}: a score is not a number")
        with results.open("a") as file:
            file.write(json.dumps({**row, "seconds": round(time.time() - start, 2)}) + "\n")
        longest[kind] = time.time() - start
        print(f"{time.time() - began:.0f} s: {one}: loss {losses[-1]:.4f} in {longest[kind]:.1f} s", flush=True)


# ---------------------------------------------------------------- verdicts

COMPARISONS = [("clean", name, LARGE) for name in DIRECTIONS[1:]] + [("pages_plain", "pages", PAGES)]
COMPARISONS += [("web", name, SMALL) for name in WEB if name.startswith("web_")] + [("all", "web", SMALL)]
COMPARISONS += [("all", name, SMALL) for name in WEB if name.startswith("all_")]
COMPARISONS += [("mixed", name, SMALL) for name in MIXED[1:]]
COMPARISONS += [("long_all", name, LONG) for name in DRAWN_LONGER[1:]]
COMPARISONS += [("clean", name, SMALL) for name in ORDERED[1:]]


class Summary:
    """The results of `train` as verdicts."""

    def __init__(self, folder, paths):
        self.items, self.corpora = Items.load(folder / "items.npz"), Corpora(folder)
        rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        self.rows = {json.dumps(row["job"]): row for row in rows}
        self._touched = {}

    def scores(self, corpus, setup, masks=True):
        """By seed."""
        from gristmill.proxy.verdict import Scores

        found = {}
        for seed in range(2 * PAIRS * PAIR_SEEDS):
            if row := self.rows.get(json.dumps(job(corpus, setup, seed, masks))):
                found[seed] = Scores(np.array(row["bits"]), np.zeros(len(row["bits"])))
        return found

    def compare(self, a, b, setup, masks=True):
        """B against A with the seeds that both have; None with fewer than two."""
        from gristmill.proxy.items import touched
        from gristmill.query.ablation.ablation import AblationResult, compare_sides

        of_a, of_b = self.scores(a, setup), self.scores(b, setup, masks)
        seeds = sorted(of_a.keys() & of_b.keys())
        if len(seeds) < 2:
            return None
        for name in {a, b}:
            if (name, setup) not in self._touched:
                self._touched[name, setup] = touched(self.items, self.corpora.pool(name, setup[1]))
        known = {"A": self._touched[a, setup], "B": self._touched[b, setup]}
        sides = {"A": [of_a[seed] for seed in seeds], "B": [of_b[seed] for seed in seeds]}
        tasks, counts, learnt = compare_sides(self.items, sides, known)
        return AblationResult(None, len(seeds), tasks, counts, learnt)

    def against_itself(self):
        """How many of the comparisons of a corpus with itself gave a verdict, overall; and how many there are."""
        from gristmill.proxy.verdict import Scores, compare

        runs = [self.rows.get(json.dumps(job("clean", TINY, seed))) for seed in range(2 * PAIRS * PAIR_SEEDS)]
        decided = []
        for start in range(0, len(runs), 2 * PAIR_SEEDS):
            group = runs[start : start + 2 * PAIR_SEEDS]
            if all(group):
                sides = [Scores(np.array(row["bits"]), np.zeros(len(row["bits"]))) for row in group]
                decided.append(compare(self.items, sides[:PAIR_SEEDS], sides[PAIR_SEEDS:])[-1].verdict != "no evidence")
        return sum(decided), len(decided)

    def line(self, a, b, setup, found):
        one = found.overall
        numbers = f"{100 * one.difference:+.2f}% | {100 * one.low:+.2f} to {100 * one.high:+.2f}% | {one.verdict}"
        marks = {"better": "(better)", "worse": "(worse)", "no evidence": ""}
        tasks = ", ".join(
            f"{task.name} {100 * task.difference / task.a:+.1f}{marks[task.verdict]}" for task in found.tasks[:-1]
        )
        return f"| {a} | {b} | {setup[0]} {setup[1] / 1e6:.0f}M | {found.seeds} | {numbers} | {tasks} |"

    def deviation(self, a, b, setup, found):
        """Over seeds, of the overall difference of a pair."""
        from gristmill.proxy.verdict import bits_per_byte

        weights = {task.name: task.weight for task in found.tasks[:-1]}
        sides = [self.scores(name, setup) for name in (a, b)]
        seen = []
        for seed in sorted(sides[0].keys() & sides[1].keys()):
            per_a, per_b = (bits_per_byte(self.items, side[seed]) for side in sides)
            total = 0.0
            for number, name in enumerate(self.items.tasks):
                chosen = self.items.task == number
                total += weights.get(name, 0) * (per_b[chosen].mean() / per_a[chosen].mean() - 1)
            seen.append(total)
        return float(np.std(seen, ddof=1))


def summary(folder, paths):
    from gristmill.proxy.swarm import spearman
    from gristmill.proxy.verdict import bits_per_byte

    held = Summary(folder, paths)
    rates = defaultdict(list)
    for row in held.rows.values():
        rates[row["job"]["size"], row["job"]["tokens"]].append((row["train_s"], row["seconds"]))
    for (size, tokens), seen in rates.items():
        print(f"{size}, {tokens:,} tokens: median {np.median(seen, 0)} s (training, with evaluation), {len(seen)} runs")
    order = {}
    for setup in (SMALL, LARGE):
        means = {}
        for name in ORDERED:
            seen = [bits_per_byte(held.items, one) for one in held.scores(name, setup).values()]
            means[name] = np.array(
                [np.mean(seen, 0)[held.items.task == n].mean() for n in range(len(held.items.tasks))]
            )
        order[setup] = np.array([(means[name] / means["clean"]).mean() for name in ORDERED])
        print(setup, dict(zip(ORDERED, order[setup].round(4).tolist(), strict=True)))
    small, large = order[SMALL], order[LARGE]
    pairs = [(i, j) for i in range(len(ORDERED)) for j in range(i)]
    right = sum((small[i] < small[j]) == (large[i] < large[j]) for i, j in pairs)
    print(f"decision accuracy: Spearman {spearman(small, large):.3f}, {right} of {len(pairs)} pairs right")
    print("a corpus against itself: {} of {} comparisons decided".format(*held.against_itself()))
    print("| A | B | model | seeds | overall | 95% interval | verdict | tasks |")
    noise = defaultdict(list)
    for a, b, setup in COMPARISONS:
        if found := held.compare(a, b, setup):
            print(held.line(a, b, setup, found), flush=True)
            if abs(found.overall.difference) < 0.03:
                noise[setup].append(held.deviation(a, b, setup, found))
            if b == "contaminated":
                for one in found.on_touched:
                    print(
                        f"touched: {one.name}, {one.items} items, {one.difference:+.4f}, {one.verdict}; {found.touched}"
                    )
                print(f"the gate refuses B: {found.refusal}")
    if found := held.compare("web", "web", SMALL, masks=False):
        print(held.line("web", "web without masks", SMALL, found))
    for setup, seen in noise.items():
        print(f"noise of {setup}: {np.sqrt(np.mean(np.square(seen))):.4f} from {len(seen)} comparisons")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("data", type=Path)
    one.add_argument("folder", type=Path)
    one.add_argument("--megabytes", type=float, default=16, help="of manuals and novels")
    two = commands.add_parser("train")
    two.add_argument("folder", type=Path)
    two.add_argument("--out", type=Path, default=Path("."))
    two.add_argument("--budget", type=float, default=1e9, help="seconds")
    two.add_argument(
        "--toy", type=int, default=0, help="a trial on a CPU: the smallest model, and tokens divided by this"
    )
    three = commands.add_parser("summary")
    three.add_argument("folder", type=Path)
    three.add_argument("results", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.data.resolve(), options.folder.resolve(), options.megabytes)
    elif options.command == "train":
        options.out.mkdir(parents=True, exist_ok=True)
        train_all(options.folder, options.out, options.budget, options.toy)
    else:
        summary(options.folder, options.results)


if __name__ == "__main__":
    main()
