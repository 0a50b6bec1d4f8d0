"""The eval suite that decontamination is measured with: real benchmarks, or the demo's items where no data is given."""

import io
import json
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import zstandard

from bench.inputs import made_up_texts
from demo import evals

FILES = {
    "gsm8k": ("gsm8k__test.jsonl.zst", "gsm8k"),
    "humaneval": ("humaneval__HumanEval.jsonl.gz", "humaneval"),
    "mbpp": ("mbpp__sanitized-mbpp.json.zst", "mbpp"),
    "hellaswag": ("hellaswag__hellaswag_val_full.txt.bz2", "hellaswag"),
    "arc_easy": ("llmfoundry__arc_easy.jsonl.zst", "arc"),
    "arc_challenge": ("llmfoundry__arc_challenge.jsonl.zst", "arc"),
    "piqa": ("llmfoundry__piqa.jsonl.zst", "piqa"),
    "openbook_qa": ("llmfoundry__openbook_qa.jsonl.zst", "openbookqa"),
    "copa": ("llmfoundry__copa.jsonl.zst", "copa"),
    "lambada": ("llmfoundry__lambada_openai.jsonl.zst", "lambada"),
    "svamp": ("llmfoundry__svamp.jsonl.zst", "svamp"),
}
"""By name of the benchmark: its file below bench/, and the ready description that reads it."""
LANGUAGES = ("zh", "ja", "th", "ko", "ar", "hi")
"""Whose sentences (lid/) are items, too: three scripts without spaces, and three others."""
FILL = "filled_up"
_SENTENCE = re.compile(r"(?<=[.!?] )[A-Z][^.!?]{40,250}[.!?](?= )")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file that may be compressed."""
    stream = path.open("rb")
    if path.suffix == ".zst":
        stream = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream, closefd=True))
    with stream:
        yield from map(json.loads, stream)


def build_suite(data: Path | None, folder: Path, fill: int = 0) -> Path:
    """A folder with the benchmarks, and `fill` items more: sentences."""
    suite = folder / "suite"
    suite.mkdir(parents=True)
    entries = []
    if data is None:
        evals.write(suite, evals.suite(Random(0)))
        (described,) = suite.glob("*.yaml")
        entries += described.read_text().split("benchmarks:\n")[1].splitlines()
        described.unlink()
    else:
        for name, (file, like) in FILES.items():
            shutil.copyfile(data / "bench" / file, suite / file)
            entries.append(f"  {name}: {{files: {file}, like: {like}}}")
        spoken = [one for one in records(data / "lid" / "lingua_sentences.jsonl.zst") if one["lang"] in LANGUAGES]
        for language in LANGUAGES:
            own = [{"question": one["text"]} for one in spoken if one["lang"] == language]
            entries.append(_write(suite, f"sentences_{language}", own))
    if fill:
        entries.append(_write(suite, FILL, [{"question": one} for one in _sentences(data, fill)]))
    (suite / "suite.yaml").write_text("\n".join(["suite: bench", 'version: "1"', "benchmarks:", *entries, ""]))
    return suite


def _write(suite: Path, name: str, items: list[dict[str, str]]) -> str:
    (suite / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return f"  {name}: {{files: {name}.jsonl, question: question}}"


def _sentences(data: Path | None, count: int) -> list[str]:
    """Different sentences: those of lid/ in other languages, which no text of the data has."""
    if data:
        spoken = records(data / "lid" / "lingua_sentences.jsonl.zst")
        return list(dict.fromkeys(one["text"] for one in spoken if one["lang"] not in LANGUAGES))[:count]
    found: dict[str, None] = {}
    for text in islice(made_up_texts(seed=1), 300):
        found.update(dict.fromkeys(_SENTENCE.findall(" ".join(text.split()))))
    return list(found)[:count]
