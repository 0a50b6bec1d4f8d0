"""Small suites, and the step decontaminate without the engine, over any parts that a test chooses."""

import itertools
import json
import random

import pyarrow as pa

from exchanged import make_assets, run_stage, stages_of
from gristmill.stages.decontaminate import decontaminate
from gristmill.stages.decontaminate.decontaminate import Config
from gristmill.stages.decontaminate.matching import findings
from gristmill.stages.decontaminate.matching.index import open_index

SYLLABLES = ["ka", "lo", "mi", "ren", "tu", "sa", "vel", "no", "pri", "dan"]


def prose(seed, words=40):
    """Words that no other seed has in this order."""
    draw = random.Random(seed)
    return " ".join("".join(draw.choices(SYLLABLES, k=4)) for _ in range(words))


def item(number, words=40, **texts):
    return {"id": f"i{number}", "q": prose(f"question {number}", words), "a": prose(f"answer {number}", 5), **texts}


def write_suite(folder, benchmarks, settings=None):
    """Write a suite. `benchmarks`: items by name; `settings`: more YAML for a benchmark, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, items in benchmarks.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items))
        more = (settings or {}).get(name, "")
        entries.append(f"  {name}: {{files: {name}.jsonl, id: id, question: q, answer: a{more}}}\n")
    (folder / "suite.yaml").write_text(f"suite: small\nversion: '1'\nbenchmarks:\n{''.join(entries)}")
    return folder


class Step:
    """The step with the models of a suite, for any number of texts."""

    def __init__(self, folder, **config):
        self.config = Config(suite=str(folder), **config)
        self.models, self.metrics = make_assets(decontaminate, self.config, folder)

    def run(self, texts, cuts=(), **ways):
        """The rows of the layer, in the order of the texts, which are in parts that end at `cuts`; and the counts."""
        bounds = [0, *sorted(cuts), len(texts)]
        parts = [_part(texts[low:high]) for low, high in itertools.pairwise(bounds) if high > low]
        found = {}
        for stage, config, name in stages_of(decontaminate, self.config):
            if stage.STAGE.kind == "asset":
                continue
            layers, counts = run_stage(stage, config, parts, self.models, **ways)
            found |= counts
            for number, layer in enumerate(layers):
                for column in layer.column_names:
                    parts[number] = parts[number].append_column(f"{name}.{column}", layer.column(column))
        return [row for layer in layers for row in layer.to_pylist()], found

    def hits(self, texts):
        """The units of the index that are found in each text."""
        found, _ = findings.find(pa.array(texts, pa.string()), open_index(self.models["eval_index"]))
        return [{one.unit for one in found if one.row == row} for row in range(len(texts))]

    def flags(self, texts, **ways):
        """The items and rules that flag each text."""
        rows, _ = self.run(texts, **ways)
        return [{(one["item"], one["rule"]) for one in row["evidence"] or ()} for row in rows]


def _part(texts):
    ids = pa.array([bytes(16)] * len(texts), pa.binary(16))
    sources = pa.array(["s"] * len(texts), pa.string())
    return pa.table({"text": pa.array(texts, pa.string()), "doc_id": ids, "source": sources})
