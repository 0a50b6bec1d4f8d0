"""Marks the documents that takedown requests name before any of them is sent to a language model.

`takedown` removes documents after all other steps. By then their text would have been sent, and paid for. This step
runs before `generate` and `entail`, which send nothing about a marked document. It gives no verdict: nothing else
changes. A generated document is marked with its parent.
"""

from functools import lru_cache

import pyarrow as pa

from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.matches import first_and_last
from gristmill.stages.shared.s_curve import Similarity
from gristmill.stages.takedown import takedown_sets
from gristmill.stages.takedown.takedown import Sets, copies_of, make_sets
from gristmill.stages.takedown.takedown_match import READS, named_in

PARENT_REQUEST = "parent_request"
SCHEMA = pa.schema([("request", pa.string())])
"""The id of a request that names the document, or has a text that the document contains."""


class Config(StageConfig):
    requests: tuple[File, ...]
    """The files of the requests."""
    names: tuple[str, ...]
    """The names of the files of requests."""
    texts: tuple[File, ...] = ()
    """The texts of the requests, in order."""
    near: Similarity = 0.8
    """The least share of a text of a request that a document contains."""


@lru_cache(maxsize=2)
def _sets(requests: tuple[str, ...], names: tuple[str, ...], texts: tuple[str, ...]) -> Sets:
    return make_sets(takedown_sets.sets_of_texts(takedown_sets.Config(requests=requests, names=names, texts=texts))[0])


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """The request that names each document."""
    found = {row: request for row, (request, _) in named_in(batch, config.requests, config.names).items()}
    if config.texts:
        sets = _sets(config.requests, config.names, config.texts)
        for column in first_and_last(batch):
            for copy in copies_of(column, sets, config.near)[0]:
                found.setdefault(copy.row, sets.requests[copy.owner])
    if PARENT_REQUEST in batch.schema.names:
        found |= {row: one for row, one in enumerate(batch.column(PARENT_REQUEST).to_pylist()) if one is not None}
    requests = pa.array([found.get(row) for row in range(batch.num_rows)], pa.string())
    return pa.RecordBatch.from_arrays([requests], schema=SCHEMA)


STAGE = Map(
    version=1,
    config=Config,
    libraries=("unicode",),
    reads=READS,
    may_read=(PARENT_REQUEST,),
    judges=False,
    schema=SCHEMA,
    apply=apply,
)
