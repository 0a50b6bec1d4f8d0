"""Small suites, and the step decontaminate over parts that a test cuts as it likes, without the engine."""

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
    """`benchmarks`: items by name; `settings`: what the description says of one besides, in YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, items in benchmarks.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items))
        more = (settings or {}).get(name, "")
        entries.append(f"  {name}: {{files: {name}.jsonl, id: id, question: q, answer: a{more}}}\n")
    (folder / "suite.yaml").write_text(f"suite: small\nversion: '1'\nbenchmarks:\n{''.join(entries)}")
    return folder


class Step:
    """The step with the models of a suite; `texts` may be given again and again."""

    def __init__(self, folder, **config):
        self.config = Config(suite=str(folder), **config)
        self.models, self.metrics = make_assets(decontaminate, self.config, folder)

    def run(self, texts, cuts=(), **ways):
        """Rows of the layer, in the order of the texts, which lie in parts that end at `cuts`; and the counts."""
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
        """Of each text the units of the index that are found in it."""
        found, _ = findings.find(pa.array(texts, pa.string()), open_index(self.models["eval_index"]))
        return [{one.unit for one in found if one.row == row} for row in range(len(texts))]

    def flags(self, texts, **ways):
        """Of each text the items that it is flagged with, and the rules."""
        rows, _ = self.run(texts, **ways)
        return [{(one["item"], one["rule"]) for one in row["evidence"] or ()} for row in rows]


def _part(texts):
    ids = pa.array([bytes(16)] * len(texts), pa.binary(16))
    sources = pa.array(["s"] * len(texts), pa.string())
    return pa.table({"text": pa.array(texts, pa.string()), "doc_id": ids, "source": sources})
