"""The eval suite for the decontamination bench: real benchmarks, or the demo's items if there is no data."""

import bz2
import json
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from backports import zstd

from bench.inputs import made_up_texts
from demo import evals

FILES = {
    "gsm8k": ("gsm8k__test.jsonl.zst", "gsm8k"),
    "humaneval": ("humaneval__HumanEval.jsonl.gz", "humaneval"),
    "mbpp": ("mbpp__sanitized-mbpp.json.zst", "mbpp"),
    "hellaswag": ("hellaswag__hellaswag_val_full.txt.bz2", "hellaswag"),  # six lines an item, see _copy
    "arc_easy": ("llmfoundry__arc_easy.jsonl.zst", "arc"),
    "arc_challenge": ("llmfoundry__arc_challenge.jsonl.zst", "arc"),
    "piqa": ("llmfoundry__piqa.jsonl.zst", "piqa"),
    "openbook_qa": ("llmfoundry__openbook_qa.jsonl.zst", "openbookqa"),
    "copa": ("llmfoundry__copa.jsonl.zst", "copa"),
    "lambada": ("llmfoundry__lambada_openai.jsonl.zst", "lambada"),
    "svamp": ("llmfoundry__svamp.jsonl.zst", "svamp"),
}
"""Maps the name of a benchmark to its file below bench/ and the ready description that reads it."""
TUNED_WITH = frozenset({"gsm8k", "mbpp", "arc_easy", "piqa", "svamp"})
"""The benchmarks that the rules were tuned with, which are the half `tune`; the others are the half `report`."""
_SENTENCE = re.compile(r"(?<=[.!?] )[A-Z][^.!?]{40,250}[.!?](?= )")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file, which may be compressed."""
    with zstd.open(path) if path.suffix == ".zst" else path.open("rb") as stream:
        yield from map(json.loads, stream)


def build_suite(data: Path | None, folder: Path, half: str = "", fill: int = 0) -> Path:
    """Writes a folder with the benchmarks of a half (empty: of both) and `fill` extra items, which are sentences."""
    suite = folder / "suite"
    suite.mkdir(parents=True)
    if data is None:
        evals.write(suite, evals.suite(Random(0)))
        (described,) = suite.glob("*.yaml")
        entries = described.read_text().split("benchmarks:\n")[1].splitlines()
        described.unlink()
    else:
        entries = [_copy(data, suite, name) for name in FILES if not half or (name in TUNED_WITH) == (half == "tune")]
    if fill:
        items = [json.dumps({"question": sentence}) for sentence in _sentences(data, fill)]
        (suite / "filled_up.jsonl").write_text("\n".join(items))
        entries.append("  filled_up: {files: filled_up.jsonl, question: question}")
    (suite / "suite.yaml").write_text("\n".join(["suite: bench", 'version: "1"', "benchmarks:", *entries, ""]))
    return suite


def _copy(data: Path, suite: Path, name: str) -> str:
    file, like = FILES[name]
    source = data / "bench" / file
    if name == "hellaswag":
        file = "hellaswag.jsonl"
        lines = [line for line in bz2.decompress(source.read_bytes()).decode().splitlines() if line]
        items = (
            {"ctx": lines[at], "label": lines[at + 1], "endings": lines[at + 2 : at + 6], "ind": at // 6}
            for at in range(0, len(lines), 6)
        )
        (suite / file).write_text("".join(json.dumps(item) + "\n" for item in items))
    else:
        shutil.copyfile(source, suite / file)
    return f"  {name}: {{files: {file}, like: {like}}}"


def _sentences(data: Path | None, count: int) -> list[str]:
    """Different sentences in other languages from lid/, which no text of the data contains."""
    if data:
        spoken = records(data / "lid" / "lingua_sentences.jsonl.zst")
        return list(dict.fromkeys(record["text"] for record in spoken))[:count]
    sentences: dict[str, None] = {}
    for text in islice(made_up_texts(seed=1), 300):
        sentences.update(dict.fromkeys(_SENTENCE.findall(" ".join(text.split()))))
    return list(sentences)[:count]
