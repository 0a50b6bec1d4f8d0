"""Language identification with lid.176.ftz: the stage against the fastText library, on the same texts and one core.

The library gets strings whose newlines are already spaces; ours gets an Arrow column as a part stores it. Both are
measured in CPU time, the best of five alternating rounds, so that a busy machine does not matter. The labels are
compared too.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.inputs import measurement, texts
from gristmill.stages.measure.language import Config, apply, built_in_model

LIMIT_BYTES = 8_000_000
ROUNDS = 5
SMALL: dict[str, object] = {"LIMIT_BYTES": 50_000, "ROUNDS": 1}
"""The constants that set its size, for its test."""


def run(data: Path | None) -> Iterable[dict]:
    found = texts(data, LIMIT_BYTES)
    batch = pa.record_batch({"text": pa.array(found, pa.string())})
    size = sum(len(text.encode()) for text in found)
    library = peer()
    lines = [text.replace("\n", " ") for text in found]
    config, short = Config(), Config(max_bytes=1000)
    apply(batch.slice(0, 1), config)
    times: dict[str, list[float]] = {"ours": [], "short": [], "peer": []}
    theirs: list[str] = []
    for _ in range(ROUNDS):
        times["ours"].append(seconds(lambda: apply(batch, config)))
        times["short"].append(seconds(lambda: apply(batch, short)))
        if library is not None:
            theirs.clear()
            times["peer"].append(seconds(lambda: theirs.extend(library(line) for line in lines)))
    best = {name: min(taken) for name, taken in times.items() if taken}
    peer_rate = size / best["peer"] / 1e6 if "peer" in best else None
    yield measurement("language.all_text", size / best["ours"] / 1e6, "MB/s", "fasttext", peer_rate)
    yield measurement(
        "language.max_bytes_1000", size / best["short"] / 1e6, "MB/s passed, 1000 bytes of each text read"
    )
    if theirs:
        ours = apply(batch, config).column("label").to_pylist()
        same = sum(mine == other for mine, other in zip(ours, theirs, strict=True))
        yield measurement("language.same_label", 100 * same / len(ours), "% of documents")


def peer() -> Callable[[str], str] | None:
    """The label that the library gives, or None if it is not installed."""
    try:
        import fasttext
    except ImportError:
        return None
    model: Any = fasttext.load_model(built_in_model())
    return lambda line: str(model.predict(line)[0][0]).removeprefix("__label__")


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun
