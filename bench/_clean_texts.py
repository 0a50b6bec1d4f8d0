"""Texts that contain no eval item: documents, paragraphs, the text of pages, and some with phrases common in prompts.

`sources` yields texts with the site, package or collection they come from. Every source belongs to one half: the rules
were chosen on texts of the `tune` half; texts of the `report` half are only counted.
"""

import gzip
import hashlib
import random
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from bench._eval_suite import records
from bench.inputs import made_up_texts
from gristmill.stages.extract import extract

BOILERPLATE = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.",
    "The following are multiple choice questions (with answers) about high school mathematics.",
    "Question: What do we see here?\nAnswer: Let's think step by step.",
    "Choose the best answer for the question below.\nA. Yes\nB. No\nC. Both of the above\n"
    "D. None of the above\nAnswer: D",
    "Q: Which of the following is true?\nA. All of the above\nB. None of the above\nAnswer: A",
    "Which of the following is an example of a physical change?",
    "Which of the following best describes the",
    "Write a python function to",
    "Write a function to find the sum of all the numbers in the given list.",
    "You are given a list of integers. Return the sum of the list.",
    "Return True if the given string is a palindrome, False otherwise.",
    "How many are left? How many did he have in the beginning? How much money does she make every day?",
    "How many apples does he have now? How many more does she need? What is the total number of them?",
    "def add(x, y):\n    return x + y\n\n\nfor i in range(len(items)):\n    print(items[i])\n",
    "from typing import List\n\n\ndef solve(numbers: List[int]) -> int:\n    return sum(numbers)\n",
    "import math\n\n\ndef is_prime(n):\n    if n < 2:\n        return False\n"
    "    for i in range(2, int(math.sqrt(n)) + 1):\n        if n % i == 0:\n            return False\n"
    "    return True\n",
    "def factorial(n):\n    if n == 0:\n        return 1\n    return n * factorial(n - 1)\n\n\n"
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n",
    "def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    'documentation files (the "Software"), to deal in the Software without restriction, including without limitation '
    "the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software.",
    'Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance '
    "with the License. You may obtain a copy of the License at http://www.apache.org/licenses/LICENSE-2.0",
    "All rights reserved. This website uses cookies to ensure you get the best experience. Read our privacy policy.",
    "The area of a circle is pi times the radius squared; the Pythagorean theorem says a^2 + b^2 = c^2, and E = mc^2.",
    "The quick brown fox jumps over the lazy dog.",
    "To be, or not to be, that is the question. Ask not what your country can do for you. I have a dream.",
    "The Earth revolves around the sun. The sun is responsible for life. Plants use sunlight to make food.",
    "He shook his head. She looked at him and said, I don't know what you mean. What do you want me to do about it?",
    "How do you make a cake? Preheat the oven to 350 degrees. How to clean a kitchen sink. How to tie a tie.",
    "A man is seen speaking to the camera. The person then continues to do so while the camera captures it.",
)
"""Phrases that documents share with benchmarks without containing an item."""


def clean_texts(data: Path | None, count: int) -> list[str]:
    """Documents of text/ and text_large/, then pages, then paragraphs until there are enough."""
    if data is None:
        made = made_up_texts(seed=2)
        return [next(made) for _ in range(count)]
    documents = [one["text"] for path in sorted(data.glob("text*/*.jsonl.zst")) for one in records(path)]
    found = [*documents, *pages(data)]
    paragraphs = [part for text in documents for part in text.split("\n\n") if 200 <= len(part) <= 5000]
    more = random.Random(3).sample(paragraphs, min(max(0, count - len(found)), len(paragraphs)))
    return [*found, *more][:count]


def pages(data: Path) -> Iterator[str]:
    """The texts that `extract` makes from the pages of warc/."""
    return (text for _, text in pages_by_host(data))


def pages_by_host(data: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((data / "warc").glob("pages-*.warc.gz")):
        with path.open("rb") as stream:
            html, hosts = [], []
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                body = record.reader.read()
                html.append(bytes_to_str(body, record.http_charset or detect_encoding(body)))
                hosts.append(urlsplit(record.headers["WARC-Target-URI"]).netloc)
        absent = pa.nulls(len(html), pa.string())
        columns = [pa.array(html, pa.string()), *[absent] * (len(extract.READS) - 1)]
        batch = pa.RecordBatch.from_arrays(columns, names=list(extract.READS))
        answered = extract.apply(batch, extract.Config(tool="resiliparse"))
        texts = answered.column("text").to_pylist()
        yield from ((host, text) for host, text in zip(hosts, texts, strict=True) if text)


def with_boilerplate(texts: list[str]) -> list[str]:
    """Each text with three of the phrases inserted."""
    draw = random.Random(4)
    made = []
    for text in texts:
        parts = text[:3000].split("\n\n")
        for phrase in draw.sample(BOILERPLATE, 3):
            parts.insert(draw.randint(0, len(parts)), phrase)
        made.append("\n\n".join(parts))
    return made


MACHINE = ("/usr/share/doc", "/usr/share/man", "/usr/share/perl", "/usr/share/cmake*/Help", "/usr/lib/node_modules/npm")
MACHINE_SUFFIXES = ("", ".txt", ".md", ".rst", ".html", ".htm", ".py", ".pm", ".pl", ".js", ".json", ".yml", ".c", ".h")
"""The suffixes of text files on the machine, ignoring `.gz`; a name without a suffix is README, copyright and so on."""
MOST_BYTES, LEAST_BYTES = 400_000, 200
PER_SOURCE = 800


def half_of(source: str) -> str:
    """Returns `tune` or `report` for the name of a source."""
    return ("tune", "report")[hashlib.sha256(source.encode()).digest()[0] & 1]


def sources(data: Path) -> Iterator[tuple[str, str]]:
    """Texts with their source: sites and collections of the data, packages and pages of this machine."""
    for path in sorted(data.glob("text*/*.jsonl.zst")):
        name = path.name.removesuffix(".jsonl.zst")
        for one in records(path):
            own = one["url"].split("/")[4:5] if name == "code" else [str(one.get("lang", ""))]
            yield f"{name}/{''.join(own)}", one["text"]
    yield from ((f"site/{host}", text) for host, text in pages_by_host(data))
    for one in records(data / "neardup" / "k8s_versions.jsonl.zst"):
        yield "kubernetes-versions", one["text"]
    for one in records(data / "quality" / "dclm_labels.jsonl.zst"):
        yield "dclm", one["text"]
    paths = sysconfig.get_paths()
    for root in (paths["stdlib"], paths["purelib"]):
        yield from _files(Path(root), (".py",))
    for pattern in MACHINE:
        for folder in sorted(Path("/").glob(pattern[1:])):
            yield from _files(folder, MACHINE_SUFFIXES)


def texts_below(folder: Path) -> Iterator[tuple[str, str]]:
    """The first PER_SOURCE texts of each package in a folder of unpacked packages, with their source."""
    yield from _files(folder, MACHINE_SUFFIXES, PER_SOURCE)


def _files(root: Path, suffixes: tuple[str, ...], most: int | None = None) -> Iterator[tuple[str, str]]:
    """The text files below a folder, each once. The source of a file is the entry of the folder that contains it.
    `most` limits the texts of each source.
    """
    known: set[bytes] = set()
    taken: Counter[str] = Counter()
    for path in sorted(root.rglob("*")):
        below = path.relative_to(root).parts
        is_own = root.name != "site-packages" and "site-packages" in below
        name = path.name.removesuffix(".gz")
        suffix = Path(name).suffix if root.name != "man" else ""
        if most is not None and taken[below[0]] >= most:
            continue
        if is_own or suffix not in suffixes or path.is_symlink() or not path.is_file():
            continue
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        digest = hashlib.sha256(content).digest()
        if not LEAST_BYTES <= len(content) <= MOST_BYTES or digest in known:
            continue
        known.add(digest)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            continue
        taken[below[0]] += 1
        if suffix in (".html", ".htm"):
            text = extract_plain_text(text)
        source = below[0] if root.name != "man" else name.partition(".")[0].partition("-")[0]
        yield f"{root.name}/{source.removesuffix('.py')}", text
