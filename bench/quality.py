"""Quality classifiers: training against the fastText library, to the same held-out AUC, on one core.

There are two sets. `text` is 100 MB by source (books and mathematics against product documentation), with one document
in ten held out. `web` is prose of books, textbooks and manuals against web pages, both as the extractor leaves them,
with whole sites held out. The library gets the examples that ours makes from the same texts, one per line, and its own
defaults except for two-word n-grams. The time is wall time from texts (ours) or the file of lines (the library) to the
model.

Without a folder, the Python manual is compared with the demo's sales talk.
"""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from backports import zstd

from bench.inputs import made_up_texts, measurement, scratch, warc_files
from demo.sales import sales_page
from gristmill.kernels.quality.features import cut_words
from gristmill.schema import as_str
from gristmill.stages.contract import Piece
from gristmill.stages.extract import extract
from gristmill.stages.ingest import warc
from gristmill.stages.quality.classifier_settings import Options
from gristmill.stages.quality.classifier_texts import SCHEMA, clean
from gristmill.stages.quality.classifier_train import MOST_EXAMPLES, area, train
from gristmill.stages.shared import fasttext_model

HIGH, LOW = ("gutenberg-en", "latex-math"), ("sql-docs", "dotnet-docs")
LIMIT_BYTES = 50_000_000
"""The most bytes of each class."""
MADE_UP = 400
"""The number of texts of each class without a data folder."""
PROSE = ("debian-handbook", "postgresql", "httpd.apache", "djangoproject", "help.libreoffice", "www.debian", "lilypond")
"""Hosts of manuals and handbooks among the pages; all other hosts are ordinary web pages."""
Labelled = list[tuple[str, bool, str]]
"""The text, whether it belongs to the high class, and the group that is held out together."""
SMALL: dict[str, object] = {"MADE_UP": 40}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    if data is None:
        yield from training({"made_up": made_up()})
    else:
        yield from training({"text": by_source(data), "web": web_against_prose(data)})


def training(sets: dict[str, Labelled]) -> Iterator[dict]:
    for name, texts in sets.items():
        held = [digest(group) % 10 == 0 for _, _, group in texts]
        known = [row for row, out in zip(texts, held, strict=True) if not out]
        unseen = [row for row, out in zip(texts, held, strict=True) if out]
        size = sum(len(text.encode()) for text, _, _ in known)
        options = Options(held_out_share=0)
        train(table(known[:: max(len(known) // 200, 1)]), options)  # compiles the kernels; not counted
        begun = time.perf_counter()
        made = train(table(known), options)
        seconds = time.perf_counter() - begun
        again = train(table(known[::-1]), options)
        assert made.model == again.model, "the model depends on the order of its texts"
        ours = auc(np.frombuffer(made.model, np.uint8), unseen)
        yield measurement(f"quality.{name}.auc", ours, f"held out, {len(unseen)} documents")
        with scratch() as folder:
            lines_of(known, options, folder / "lines")
            for dim, threads in ((100, 1), (100, 2), (10, 1), (1, 1)):
                found = library(folder, dim, threads)
                if found is None:
                    yield measurement(f"quality.{name}.train", size / seconds / 1e6, "MB/s")
                    break
                taken, file = found
                peer = f"fasttext, {dim} dimensions, {threads} thread{'s' * (threads > 1)}"
                yield measurement(f"quality.{name}.train", size / seconds / 1e6, "MB/s", peer, size / taken / 1e6)
                yield measurement(
                    f"quality.{name}.auc", ours, "held out", peer, auc(np.fromfile(file, np.uint8), unseen)
                )


LIBRARY = """
import json, sys, time, fasttext
lines, model, dim, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
begun = time.perf_counter()
trained = fasttext.train_supervised(
    lines, dim=dim, thread=threads, wordNgrams=2, bucket=2_000_000, epoch=5, verbose=0
)
print(time.perf_counter() - begun)
trained.save_model(model)
"""


def output_of(script: str, *words: str) -> str | None:
    """The library's output, in the Python that FASTTEXT_PYTHON names or this one; None if it cannot train."""
    python = os.environ.get("FASTTEXT_PYTHON", sys.executable)
    able = "import fasttext; assert hasattr(fasttext, 'train_supervised')"
    if subprocess.run([python, "-c", able], capture_output=True).returncode:
        return None
    return subprocess.run([python, "-c", script, *words], check=True, capture_output=True, text=True).stdout


def library(folder: Path, dim: int, threads: int) -> tuple[float, Path] | None:
    """The seconds that the library takes, and its model."""
    output = output_of(LIBRARY, str(folder / "lines"), str(folder / "model.bin"), str(dim), str(threads))
    return None if output is None else (float(output), folder / "model.bin")


def chances(model: np.ndarray, texts: Labelled) -> np.ndarray:
    """The probabilities of the label `high` from a model file."""
    loaded = fasttext_model.parse(model, "model")
    labels, found = fasttext_model.predict(loaded, pa.array([text for text, _, _ in texts]), k=2)
    return np.where(labels == loaded.labels.index("high"), found, 0).sum(axis=1)


def auc(model: np.ndarray, texts: Labelled) -> float:
    return area(chances(model, texts), np.array([is_high for _, is_high, _ in texts]))


def lines_of(texts: Labelled, options: Options, path: Path) -> None:
    """Writes the examples in the library's format."""
    found, _ = clean(table(texts), options.min_words)
    begins, ends, owners = cut_words(*found[:3], options.example_words, MOST_EXAMPLES)
    order = np.argsort([digest(str(at)) for at in range(len(begins))])
    with path.open("wb") as file:
        for at in order.tolist():
            label = b"high" if found.high[owners[at]] else b"low"
            text = b" ".join(found.data[begins[at] : ends[at]].tobytes().split())
            file.write(b"__label__" + label + b" " + text + b"\n")


def table(texts: Labelled) -> pa.Table:
    rows = [(text, high, float(high), digest(group)) for text, high, group in texts]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def made_up() -> Labelled:
    manual = itertools.islice(made_up_texts(), MADE_UP)
    pages = [sales_page(Random(number), "page") for number in range(MADE_UP)]
    talk = ["\n".join(block.text for block in page.blocks) for page in pages]
    named = [(True, manual), (False, talk)]
    return [(text, high, f"site {number % 20}") for high, texts in named for number, text in enumerate(texts)]


def by_source(data: Path) -> Labelled:
    found: Labelled = []
    for high, names in ((True, HIGH), (False, LOW)):
        size = 0
        for record in (record for name in names for record in documents(data, name)):
            size += len(record["text"].encode())
            if size > LIMIT_BYTES:
                break
            found.append((record["text"], high, record["id"]))
    return found


def web_against_prose(data: Path) -> Labelled:
    """English prose without its markup, against English pages."""
    found: Labelled = []
    with scratch() as folder:
        for path in warc_files(data / "warc", folder):
            rows = [row for row in warc.read(Piece(str(path), path.name), warc.Config()) if row.html]
            empty = pa.nulls(len(rows), pa.string())
            columns = [pa.array([as_str(row.html) for row in rows if row.html], pa.string()), empty, empty, empty]
            batch = pa.RecordBatch.from_arrays(columns, names=list(extract.READS))
            texts = extract.apply(batch, extract.Config()).column("text").to_pylist()
            for row, text in zip(rows, texts, strict=True):
                host = urlsplit(row.url or "").netloc
                if text and is_english(text):
                    found.append((text, any(name in host for name in PROSE), host))
    for name in ("gutenberg-en", "latex-math", "mdn-en"):
        for record in documents(data, name, folders=("text",)):
            found.append((plain(record["text"]), True, urlsplit(record["url"]).netloc))
    return found


def plain(text: str) -> str:
    """The text without front matter, licence and markup, as an extractor would leave it."""
    if text.startswith("---"):
        text = text[text.find("---", 3) + 3 :]
    if "Project Gutenberg" in text[:2000]:
        text = text[4000:-20000]
    text = re.sub(r"(?s)```.*?```|\$\$.*?\$\$|\{\{.*?\}\}|\{%.*?%\}|<!--.*?-->", " ", text)
    return re.sub(r"[#*_`$\\{}|<>\[\]~=]", "", re.sub(r"\\[A-Za-z]+|--+", " ", text))


def is_english(text: str) -> bool:
    words = text.lower().split()
    return sum(word in ("the", "of", "and", "to", "is") for word in words) > len(words) / 20


def documents(data: Path, name: str, folders: tuple[str, ...] = ("text", "text_large")) -> Iterator[dict]:
    for folder in folders:
        path = data / folder / f"{name}.jsonl.zst"
        if path.exists():
            content = zstd.decompress(path.read_bytes())
            yield from (json.loads(line) for line in content.split(b"\n") if line)


def digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
