"""Decontamination: its speed, the share of planted items that it finds, and the share of clean texts that it flags.

    speed    the stage on texts, one core, CPU time, best of the rounds: with 30,000 items and with 30 of them,
             drawn evenly from all benchmarks, prose and code separately; against datatrove's filter with the same items
    recall   items of every benchmark put into real texts in many ways (_plants.py); an item counts as found if its
             document is flagged for it
    clean    documents, pages and paragraphs without an item, and documents with phrases common in prompts
    held out `--half report`: recall and false flags with benchmarks, and on texts, that the rules were not tuned with
             (`--half tune`: those that they were tuned with; `--half all`: both); `--texts DIR`: only false flags,
             on the texts below DIR

datatrove's filter has an index of all 12-grams of questions and answers, built by its own indexer class without the
step that would download the benchmarks. It looks for n-grams only, and stops at the first match in a text.

`python -m bench.decontaminate --data DIR --misses` shows recall by benchmark, and some missed items and false flags.
"""

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench._clean_texts import clean_texts, half_of, sources, texts_below, with_boilerplate
from bench._eval_suite import FILES, OWN, build_half, build_suite, described, records
from bench._plants import WAYS, WITHIN, planted
from bench.inputs import made_up_texts, measurement, scratch
from gristmill.stages.decontaminate import eval_match, eval_scan
from gristmill.stages.decontaminate.matching.evidence import RULES
from gristmill.stages.decontaminate.matching.findings import find
from gristmill.stages.decontaminate.matching.index import key_of, open_index, write_index
from gristmill.stages.decontaminate.matching.words import hash_words
from gristmill.stages.decontaminate.suite.form import Item
from gristmill.stages.decontaminate.suite.suite import Suite, read_suite

ITEMS, FEW_ITEMS = 30_000, 30
LIMIT_BYTES = 60_000_000
PEER_BYTES = 400_000
ROUNDS = 5
PER_BENCHMARK = 400
"""The number of planted items of each benchmark, chosen by their hash."""
CLEAN = 50_000
CARRIER_CHARS = 3000
SHORT = 13
"""A question with fewer words has no n-gram."""
SHOWN = 8
BATCH = 1000
NGRAM, FUZZY = 13, 0.8
"""The defaults of the step."""
HELD_OUT = (
    "verbatim: question",
    "verbatim: question and answer",
    "verbatim: lettered choices",
    "verbatim: as JSON",
    WITHIN,
    "verbatim: first 70% of the question",
    "verbatim: first 70% of the item",
    "edited: all three",
    "code: printed anew",
    "code: renamed, with docstring",
)
"""The ways that run with one half, chosen so that it ends within minutes."""
PEER = "datatrove NGramsDecontFilter"
SMALL: dict[str, object] = {
    "ITEMS": 90,
    "LIMIT_BYTES": 100_000,
    "PEER_BYTES": 5_000,
    "ROUNDS": 1,
    "PER_BENCHMARK": 4,
    "CLEAN": 60,
}
"""The constants that set its size, for its test."""


class Judge(NamedTuple):
    """A suite and its index."""

    suite: Suite
    index: Path

    def flags(self, texts: Sequence[str]) -> dict[int, list[dict[str, Any]]]:
        """The evidence of each flagged text, with all texts as one corpus."""
        config = eval_match.Config()
        found = []
        for part, begin in enumerate(range(0, len(texts), BATCH)):
            column = pa.array(texts[begin : begin + BATCH], pa.string())
            models = {"eval_index": self.index}
            hits = eval_scan.apply(pa.record_batch([column], names=["text"]), eval_scan.Config(), models)
            emitted = pa.Table.from_batches([eval_match.emit(hits.select(["hits"]), config, models)])
            found.append(emitted.append_column("part", pa.array(np.full(len(emitted), part, np.uint64))))
        flagged = defaultdict(list)
        for one in eval_match.by_item(pa.concat_tables(found), config)[0].to_pylist():
            flagged[one["part"] * BATCH + one["row"]].append(one)
        return dict(flagged)


def judge_of(folder: Path) -> Judge:
    suite = read_suite(str(folder))
    index = folder.parent / "index"
    write_index(suite, NGRAM, FUZZY, index)
    return Judge(suite, index)


def run(data: Path | None, misses: bool = False) -> Iterator[dict]:
    with scratch() as folder:
        judge = judge_of(build_suite(data, folder / "real"))
        yield from speed(data, folder / "filled", ITEMS - len(judge.suite.items))
        yield from recall(data, judge, misses)
        if data and (data / "decontam").is_dir():
            yield from planted_by_others(data, judge)
        yield from clean(data, judge, misses)


def speed(data: Path | None, folder: Path, fill: int) -> Iterator[dict]:
    """The speed of the stage with all items of a filled-up suite, and with a few."""
    suite = read_suite(str(build_suite(data, folder, fill)))
    few = evenly(suite.items, FEW_ITEMS)
    paths = folder / "all", folder / "few"
    for path, items in zip(paths, (suite.items, few), strict=True):
        write_index(suite._replace(items=items), NGRAM, FUZZY, path)
    for name, found in scanned(data).items():
        column = pa.array(found, pa.string())
        size = sum(map(len, map(str.encode, found)))
        # In turns, so that other load on the machine affects both.
        times = [[seconds(find, column, open_index(path)) for path in paths] for _ in range(ROUNDS)]
        ours, with_few = (size / min(taken) / 1e6 for taken in zip(*times, strict=True))
        yield measurement(f"decontaminate.{name}", ours, "MB/s", f"ours with {len(few)} items", with_few)
        sample = some_of(found, PEER_BYTES)
        theirs = datatrove_seconds(sample, suite.items)
        rate = sum(map(len, map(str.encode, sample))) / theirs / 1e6 if theirs else None
        yield measurement(f"decontaminate.{name}_against_datatrove", ours, "MB/s", PEER, rate)


def scanned(data: Path | None) -> dict[str, list[str]]:
    """Texts in random order."""
    if data is None:
        made = made_up_texts(seed=3)
        return {"prose": up_to(made, LIMIT_BYTES)}
    draw = random.Random(5)
    kinds: dict[str, list[str]] = {"prose": [], "code": []}
    for path in sorted(data.glob("text*/*.jsonl.zst")):
        kinds["code" if path.name.startswith("code") else "prose"] += [one["text"] for one in records(path)]
    for texts in kinds.values():
        draw.shuffle(texts)
    both = [*kinds["prose"], *kinds["code"]]
    draw.shuffle(both)
    return {name: up_to(iter(texts), LIMIT_BYTES) for name, texts in {**kinds, "both": both}.items()}


def up_to(texts: Iterator[str], size: int) -> list[str]:
    found: list[str] = []
    for text in texts:
        found.append(text)
        size -= len(text.encode())
        if size <= 0:
            break
    return found


def some_of(texts: Sequence[str], size: int) -> list[str]:
    """Texts that are not very long, up to a total size."""
    return up_to((text for text in texts if len(text) < 20_000), size)


def seconds(work: Callable[..., object], *given: object) -> float:
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun


def datatrove_seconds(texts: Sequence[str], items: Sequence[Item]) -> float | None:
    """CPU seconds of datatrove's filter; None if datatrove or its tokenizer is not installed."""
    try:
        import spacy  # noqa: F401
        from datatrove.data import Document
        from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer
    except ImportError:
        return None
    config = NGramsDecontConfig(find_query_ngrams=True)
    NGramsDecontIndexer._requires_dependencies = []  # lighteval would download benchmarks
    with scratch() as folder:
        indexer = NGramsDecontIndexer(str(folder), config=config)
        hashes = {one for item in items for one in indexer.compute_hashes(item.answer, item.question)}
        np.array(sorted(hashes), config.hash_config.np_descr).tofile(folder / "items.index.hashes")
        step = NGramsDecontFilter(str(folder), config=config)
        step.filter(Document(text="It loads the tokenizer and the index.", id="0"))
        documents = [Document(text=text, id=str(number)) for number, text in enumerate(texts)]
        return seconds(list, map(step.filter, documents))


def recall(data: Path | None, judge: Judge, misses: bool, ways: Sequence[str] = tuple(WAYS)) -> Iterator[dict]:
    """The share of planted items that their documents are flagged for, by way and for short items."""
    chosen = sample_of(judge.suite.items)
    sizes = hash_words([item.question for item in chosen]).sizes().tolist()
    places = carriers(data)
    words = [word for text in places[:60] for word in text.split() if word.isalpha()]
    for name in ways:
        way = WAYS[name]
        draw = random.Random(name)
        texts = [way(item, draw, words) for item in chosen]
        there = [number for number, text in enumerate(texts) if text is not None]
        if not there:
            continue
        documents = [planted(texts[one] or "", places[one % len(places)], name == WITHIN) for one in there]
        flags = judge.flags(documents)
        found = [key_of(chosen[one]) in {flag["item"] for flag in flags.get(at, ())} for at, one in enumerate(there)]
        # Code is reported by benchmark, because it differs; questions as all and short ones. Items that were written to
        # provoke false flags are reported separately.
        groups: dict[str, list[bool]] = {}
        for one, ok in zip(there, found, strict=True):
            is_apart = name.startswith("code") or chosen[one].benchmark == OWN
            for group in [chosen[one].benchmark] if is_apart else ["all", "short"][: 1 + (sizes[one] < SHORT)]:
                groups.setdefault(group, []).append(ok)
        for group, held in groups.items():
            yield measurement(f"decontaminate.recall, {name}, {group}, {len(held)}", float(np.mean(held)), "share")
        if misses:
            tell(name, [chosen[one] for one in there], [texts[one] or "" for one in there], found)


def tell(name: str, items: Sequence[Item], texts: Sequence[str], found: Sequence[bool]) -> None:
    """Prints recall by benchmark and some missed items."""
    total = Counter(item.benchmark for item in items)
    held = Counter(item.benchmark for item, ok in zip(items, found, strict=True) if ok)
    print(f"{name}: {', '.join(f'{one} {held[one] / count:.3f}' for one, count in total.items())}", file=sys.stderr)
    missed = [(item, text) for item, text, ok in zip(items, texts, found, strict=True) if not ok]
    for item, text in sorted(missed, key=lambda one: one[0].digest[::-1])[:SHOWN]:
        print(f"    {item.benchmark} {item.id}: {text[:200]!r}", file=sys.stderr)


def sample_of(items: Sequence[Item]) -> list[Item]:
    return [item for own in by_benchmark(items).values() for item in own[:PER_BENCHMARK]]


def evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Takes the same number from each benchmark, including code: 30 drawn from all would be only questions and
    sentences.
    """
    rounds = zip_longest(*by_benchmark(items).values())
    return [item for one in rounds for item in one if item][:count]


def by_benchmark(items: Sequence[Item]) -> dict[str, list[Item]]:
    """The items of each benchmark, ordered by their hash."""
    found: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.digest):
        found.setdefault(item.benchmark, []).append(item)
    return found


def carriers(data: Path | None) -> list[str]:
    """Passages of real documents that items are inserted into."""
    if data is None:
        return up_to(made_up_texts(seed=4), 300_000)
    found = []
    for path in sorted(data.glob("text/*.jsonl.zst")):
        for one in list(records(path))[:200]:
            text = one["text"][: 20 * CARRIER_CHARS]
            found += [text[at : at + CARRIER_CHARS] for at in range(0, len(text) - CARRIER_CHARS, CARRIER_CHARS)]
    random.Random(6).shuffle(found)
    return found


def planted_by_others(data: Path, judge: Judge) -> Iterator[dict]:
    """Recall on the documents of decontam/, which name what was inserted into them, and how."""
    documents = list(records(data / "decontam" / "planted.jsonl.zst"))
    flags = judge.flags([one["text"] for one in documents])
    found: dict[str, list[bool]] = {}
    for row, one in enumerate(documents):
        found.setdefault(one["planted"]["mode"] if one["planted"] else "clean", []).append(row in flags)
    for mode, held in sorted(found.items()):
        yield measurement(f"decontaminate.planted, {mode}, {len(held)} documents", float(np.mean(held)), "flagged")


PROMPTS: tuple[tuple[str, str, str, str], ...] = (
    ("{q}", "", "", ""),
    ("Question: {q}\nChoices:\n{c}\nAnswer:", "{l}. {x}", "\n", "A"),
    ("Question: {q} Choices: {c} Answer:", "{l}. {x}", " ", "A"),
    ("{q} Options: {c} Answer:", "({l}) {x}", " ", "A"),
    ("{q} Options: {c}  Answer: ", "{l}) {x}", " ", "A"),
    ("Question: {q}\nChoices: {c}\nAnswer:", "{l}. {x}", ", ", "A"),
    ("Q: {q}\nOptions: {c}\nA:", "{l}: {x}", "; ", "A"),
    ("Question: {q}\nChoices:\n{c}\nAnswer:", "{l}. {x}", "\n", "1"),
    ("Question: {q}\nOptions:\n{c}\nAnswer:", "- {x}", "\n", ""),
    ("Question: {q}\nChoices: {c}\nAnswer:", "{x}", ", ", ""),
    ("Answer the following multiple choice question.\n\n{q}\n\n{c}\n\nAnswer:", "{l}. {x}", "\n", "A"),
)
"""Styles of a prompt: the whole prompt, one choice, the text between choices, and the first label."""
PROMPTED, PROMPT_ITEMS = ("arc_easy", "arc_challenge", "openbook_qa", "piqa", "copa"), 25


def prompted(data: Path) -> Iterator[dict]:
    """Items in llm-foundry form whose questions are prompts; the texts contain the question followed by its right
    answer.
    """
    places = carriers(data)
    for like in ("commonsenseqa", "arc", "multiple_choice"):
        found = []
        for number, (whole, one, between, label) in enumerate(PROMPTS):
            items, texts = [], []
            for benchmark in PROMPTED:
                drawn = random.Random(benchmark).sample(
                    list(records(data / "bench" / FILES[benchmark][0])), PROMPT_ITEMS
                )
                for at, record in enumerate(drawn):
                    question, choices = record["query"].removeprefix("Question: ").strip(), record["choices"]
                    labels = [chr(ord(label or "A") + place) for place in range(len(choices))]
                    listed = between.join(
                        one.format(l=name, x=text) for name, text in zip(labels, choices, strict=True)
                    )
                    items.append({**record, "query": whole.format(q=question, c=listed)})
                    answered = f"{question}{' ' if number % 2 else chr(10)}{choices[record['gold']]}"
                    texts.append(planted(answered, places[at], within=False))
            with scratch() as folder:
                flags = judge_of(described(folder / "suite", {"prompted": (items, like)})).flags(texts)
            found += [place in flags for place in range(len(texts))]
        yield measurement(f"decontaminate.prompted, like {like}, {len(found)}", float(np.mean(found)), "share")


def held_out(data: Path, half: str, misses: bool, texts: Path | None = None) -> Iterator[dict]:
    """Recall and flags on one half of benchmarks and texts, which are divided by their sources, or on other texts."""
    with scratch() as folder:
        judge = judge_of(build_half(data, folder, half))
        if not texts:
            yield from recall(data, judge, misses, HELD_OUT)
            yield from prompted(data) if half == "all" else ()
        kinds: dict[str, list[str]] = {}
        for source, text in texts_below(texts) if texts else sources(data):
            if texts or half in (half_of(source), "all"):
                kinds.setdefault("code" if text_is_code(source) else "prose", []).append(text)
        yield from flagged(kinds, judge, misses)


def text_is_code(source: str) -> bool:
    """Whether the texts of a source (`sources`) are programs."""
    return source.startswith(("code/", "python", "site-packages/", "perl/", "npm/"))


def clean(data: Path | None, judge: Judge, misses: bool) -> Iterator[dict]:
    """Clean texts that are flagged by mistake."""
    texts = clean_texts(data, CLEAN)
    yield from flagged({"clean": texts, "boilerplate": with_boilerplate(texts[: len(texts) // 2 : 20])}, judge, misses)


def flagged(kinds: dict[str, list[str]], judge: Judge, misses: bool) -> Iterator[dict]:
    """The number of flagged texts of each kind, with every kind as one corpus."""
    for name, held in kinds.items():
        flags = judge.flags(held)
        yield measurement(f"decontaminate.{name}, {len(held)} documents", len(flags), "flagged")
        items = {key_of(item): item for item in judge.suite.items}
        for row, evidence in sorted(flags.items())[: SHOWN if misses else 0]:
            one = evidence[0]
            start, stop = one["spans"][:2]
            there = held[row].encode()[start:stop].decode("utf-8", "replace")
            item = items[one["item"]]
            print(f"{name}: {item.benchmark} {item.id} ({RULES[one['rule']]}): {there[:200]!r}", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.decontaminate", description="Recall by benchmark.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--misses", action="store_true", help="show some of what was missed or flagged")
    parser.add_argument("--half", choices=("tune", "report", "all"), help="recall and false flags on this half of DATA")
    parser.add_argument("--texts", type=Path, help="with --half: false flags on the texts of this folder instead")
    given = parser.parse_args()
    if (given.half and not given.data) or (given.texts and not given.half):
        parser.error("--half requires --data, and --texts requires --half")
    lines = held_out(given.data, given.half, given.misses, given.texts) if given.half else run(given.data, given.misses)
    for line in lines:
        print(line["name"], line["value"], line["unit"], line["peer"] or "", line["peer_value"] or "", flush=True)
