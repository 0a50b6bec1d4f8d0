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
"""The benchmarks of the `tune` half (_clean_texts.py); the others belong to the `report` half."""
OWN = "own"
OWN_ITEMS = Path(__file__).with_name("own_items.txt")
LANGUAGES = ("zh", "ja", "th", "ko", "ar", "hi")
"""Languages whose sentences (lid/) are also items: three scripts without spaces, and three others."""
FILL = "filled_up"
_SENTENCE = re.compile(r"(?<=[.!?] )[A-Z][^.!?]{40,250}[.!?](?= )")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file, which may be compressed."""
    stream = path.open("rb")
    if path.suffix == ".zst":
        stream = zstd.open(stream)
    with stream:
        yield from map(json.loads, stream)


def build_half(data: Path, folder: Path, half: str) -> Path:
    """Writes a folder with the benchmarks of a half (`all`: of both), and the items that were written for it."""
    suite = folder / "suite"
    suite.mkdir(parents=True)
    chosen = {name for name in FILES if half == "all" or (name in TUNED_WITH) == (half == "tune")}
    entries = [_copy(data, suite, name) for name in FILES if name in chosen]
    with (suite / "own.jsonl").open("w") as file:
        for line in OWN_ITEMS.read_text().splitlines():
            of, style, question, answer, others = (part.strip() for part in f"{line} | | | |".split("|")[:5])
            if of in (("tune", "report") if half == "all" else (half,)):
                code = question.replace("\\n", "\n") if style == "code" else ""
                choices = [answer, *(one.strip() for one in others.split(";"))] if others else []
                prompt = code.partition("\n")[0] or question
                item = {
                    "id": f"{style} {question}",
                    "question": prompt,
                    "answer": answer,
                    "choices": choices,
                    "code": code,
                }
                file.write(json.dumps(item) + "\n")
    fields = "question: question, answer: answer, choices: choices, code: code, id: id"
    return _described(suite, [*entries, f"  {OWN}: {{files: own.jsonl, {fields}}}"])


def _described(suite: Path, entries: list[str]) -> Path:
    (suite / "suite.yaml").write_text("\n".join(["suite: bench", 'version: "1"', "benchmarks:", *entries, ""]))
    return suite


def described(suite: Path, benchmarks: dict[str, tuple[list[dict[str, Any]], str]]) -> Path:
    """Writes a folder with benchmarks; each has its records and the ready description that reads them."""
    suite.mkdir(parents=True)
    for name, (items, _) in benchmarks.items():
        (suite / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return _described(
        suite, [f"  {name}: {{files: {name}.jsonl, like: {like}}}" for name, (_, like) in benchmarks.items()]
    )


def _copy(data: Path, suite: Path, name: str) -> str:
    file, like = FILES[name]
    source = data / "bench" / file
    if name == "hellaswag":
        file = "hellaswag.jsonl"
        lines = bz2.decompress(source.read_bytes()).decode().splitlines()
        lines = [line for line in lines if line]
        items = (
            {"ctx": lines[at], "label": lines[at + 1], "endings": lines[at + 2 : at + 6], "ind": at // 6}
            for at in range(0, len(lines), 6)
        )
        (suite / file).write_text("".join(json.dumps(item) + "\n" for item in items))
    else:
        shutil.copyfile(source, suite / file)
    return f"  {name}: {{files: {file}, like: {like}}}"


def build_suite(data: Path | None, folder: Path, fill: int = 0) -> Path:
    """Writes a folder with the benchmarks and `fill` extra items, which are sentences."""
    suite = folder / "suite"
    suite.mkdir(parents=True)
    entries = []
    if data is None:
        evals.write(suite, evals.suite(Random(0)))
        (described,) = suite.glob("*.yaml")
        entries += described.read_text().split("benchmarks:\n")[1].splitlines()
        described.unlink()
    else:
        entries += [_copy(data, suite, name) for name in FILES]
        spoken = [one for one in records(data / "lid" / "lingua_sentences.jsonl.zst") if one["lang"] in LANGUAGES]
        for language in LANGUAGES:
            own = [{"question": one["text"]} for one in spoken if one["lang"] == language]
            entries.append(_write(suite, f"sentences_{language}", own))
    if fill:
        entries.append(_write(suite, FILL, [{"question": one} for one in _sentences(data, fill)]))
    return _described(suite, entries)


def _write(suite: Path, name: str, items: list[dict[str, str]]) -> str:
    (suite / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return f"  {name}: {{files: {name}.jsonl, question: question}}"


def _sentences(data: Path | None, count: int) -> list[str]:
    """Different sentences in other languages from lid/, which no text of the data contains."""
    if data:
        spoken = records(data / "lid" / "lingua_sentences.jsonl.zst")
        return list(dict.fromkeys(one["text"] for one in spoken if one["lang"] not in LANGUAGES))[:count]
    found: dict[str, None] = {}
    for text in islice(made_up_texts(seed=1), 300):
        found.update(dict.fromkeys(_SENTENCE.findall(" ".join(text.split()))))
    return list(found)[:count]
