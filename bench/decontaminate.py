"""Decontamination: how fast, how much of what was planted is found, and how much that is clean is flagged."""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench._eval_suite import FILL, build_suite, records
from bench._plants import WAYS, planted
from bench.inputs import made_up_texts, measurement, scratch
from gristmill.stages.decontaminate import eval_match, eval_scan, eval_suite
from gristmill.stages.decontaminate.index import key_of, write_index
from gristmill.stages.decontaminate.suite import Item, Suite, read_suite

NGRAM, FUZZY = 13, 0.8
"""What the step has as its defaults."""
PER_BENCHMARK = 400
CARRIER_BYTES = 3000
BATCH = 1000


class Judge(NamedTuple):
    """A suite, and the files that the stages make of it."""

    suite: Suite
    index: Path
    opened: Path

    def flags(self, texts: Sequence[str]) -> dict[int, list[dict]]:
        """The evidence of each text that is flagged, as the stages have it, n-grams of many texts let go."""
        config = eval_match.Config()
        found = []
        for part, begin in enumerate(range(0, len(texts), BATCH)):
            column = pa.array(texts[begin : begin + BATCH], pa.string())
            hits = eval_scan.scan(pa.record_batch([column], names=["text"]), self.index).select(["hits"])
            emitted = pa.Table.from_batches([eval_match.emit(hits, config, {"eval_suite": self.opened})])
            found.append(emitted.append_column("part", pa.array(np.full(len(emitted), part, np.uint64))))
        flagged = defaultdict(list)
        for one in eval_match.by_item(pa.concat_tables(found), config)[0].to_pylist():
            flagged[one["part"] * BATCH + one["row"]].append(one)
        return dict(flagged)


def judge_of(folder: Path) -> Judge:
    suite = read_suite(str(folder))
    index, opened = folder.parent / "index", folder.parent / "opened"
    write_index(suite.items, suite.protections, NGRAM, FUZZY, index)
    eval_suite.make(eval_suite.Config(suite=str(folder)), opened)
    return Judge(suite, index, opened)
