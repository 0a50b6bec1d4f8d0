"""Terms of a list in texts, against one regular expression of all of them; one core, CPU time, best of the rounds.

There are two lists of 400 terms: one that no text contains, and one of rare words of the texts themselves, so that most
texts are scanned twice. The expression is the obvious one, `\\b(?:one|two|...)\\b`, ignoring case. Both must find the
same in ASCII texts.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.inputs import measurement, scratch, texts
from gristmill.stages.scrub import safety_scores

LIMIT_BYTES = 40_000_000
PEER_BYTES = 1_000_000
TERMS = 400
ROUNDS = 3
RARE = 0.02
"""The share of texts above which a word is not rare."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    for name, terms in (("none", made_up(found)), ("some", rare(found))):
        expression = re.compile(rf"(?ai)\b(?:{'|'.join(sorted(terms, key=len, reverse=True))})\b")
        few = some_of(found, PEER_BYTES)
        with scratch() as folder:
            (folder / "terms.txt").write_text("\n".join(terms))
            config = safety_scores.Config(terms=str(folder / "terms.txt"))
            ours, counts = best(lambda config=config: counted(found, config))
        peers, expected = best(lambda few=few, expression=expression: [len(expression.findall(one)) for one in few])
        for text, own, theirs in zip(few, counts, expected, strict=False):
            if text.isascii() and own != theirs:
                raise AssertionError(f"{own} terms, and the expression finds {theirs}")
        rates = (size_of(found) / ours / 1e6, size_of(few) / peers / 1e6)
        yield measurement(f"terms.{name}", rates[0], "MB/s", "Python, one regular expression", rates[1])


def counted(found: list[str], config: safety_scores.Config) -> list[int]:
    batch = pa.RecordBatch.from_arrays([pa.array(found, pa.string())], names=["text"])
    return safety_scores.apply(batch, config)["terms"].to_pylist()


def words_of(found: list[str]) -> Counter[str]:
    """The number of texts that contain each word of ASCII letters."""
    return Counter(word for text in found for word in {*re.findall(r"(?a)\b[a-z]{4,}\b", text.lower())})


def rare(found: list[str]) -> list[str]:
    most = max(1, int(RARE * len(found)))
    few = sorted(word for word, count in words_of(found).items() if count <= most)
    return random.Random(1).sample(few, min(TERMS, len(few)))


def made_up(found: list[str]) -> list[str]:
    draw, known = random.Random(2), words_of(found)
    made = {"".join(draw.choices("abcdefghijklmnoprstuvw", k=draw.randint(4, 9))) for _ in range(2 * TERMS)}
    return sorted(made - set(known))[:TERMS]


def some_of(found: list[str], size: int) -> list[str]:
    few: list[str] = []
    for text in found:
        few.append(text)
        size -= len(text.encode())
        if size <= 0:
            break
    return few


def size_of(found: list[str]) -> int:
    return sum(len(text.encode()) for text in found)


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        answer = work()
        times.append(time.process_time() - started)
    return min(times), answer
