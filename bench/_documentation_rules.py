"""The share of the files of manuals that rule sets drop: `python -m bench._documentation_rules DATA`.

The manuals are Markdown in DATA/text and DATA/text_large. The set `documentation` was chosen on the first three. The
last rows are texts that people called good or bad (DATA/quality): rules for manuals must still drop some bad ones.
"""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from gristmill.stages.measure import signals
from gristmill.stages.select import heuristics

CHOSEN_ON = ("mdn-en", "dotnet-docs", "kubernetes-docs")
MEASURED_ON = ("github-docs", "sql-docs", "windowsserver-docs")
SETS = (["gopher_quality"], ["gopher_repetition", "gopher_quality"], ["documentation"])


def documents(path: Path) -> list[dict[str, str]]:
    lines = subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout.split(b"\n")
    return [json.loads(line) for line in lines if line]


def dropped(texts: list[str], rules: list[str]) -> str:
    batch = pa.RecordBatch.from_pydict({"text": texts})
    found = signals.STAGE.apply(batch, signals.Config())
    columns = {f"signals.{name}": found[name] for name in found.schema.names}
    more = {"source": pa.nulls(len(texts), pa.string()), "snapshot": pa.nulls(len(texts), pa.string())}
    sizes = {"text_bytes": pa.array([len(text) for text in texts])}
    judged = heuristics.apply(
        pa.RecordBatch.from_pydict({**columns, **more, **sizes}), heuristics.Config.model_validate({"rules": rules})
    )
    return f"{1 - judged['drop'].null_count / len(texts):.1%}"


def main(data: Path) -> None:
    groups = {}
    for name in (*CHOSEN_ON, *MEASURED_ON):
        paths = [path for folder in ("text", "text_large") if (path := data / folder / f"{name}.jsonl.zst").exists()]
        groups[name] = [one["text"] for path in paths for one in documents(path) if one["lang"] == "en"]
    labelled = documents(data / "quality" / "dclm_labels.jsonl.zst")
    for label, name in ((1, "called good"), (0, "called bad")):
        groups[name] = [one["text"] for one in labelled if one["label"] == label]
    for name, texts in groups.items():
        shares = " | ".join(dropped(texts, rules) for rules in SETS)
        print(f"| {name} ({len(texts):,}) | {shares} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
