"""Reads the children of a source's documents, as the step `generate` stored them: each answer becomes a document."""

import hashlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from gristmill.schema import Record
from gristmill.stages.contract import Piece, Reader, StageConfig

COLUMNS = pa.schema(
    [
        ("parent", pa.binary(16)),
        ("prompt", pa.string()),
        ("model", pa.string()),
        ("sample", pa.int32()),
        ("chunk", pa.int32()),
        ("parent_text", pa.string()),
        ("parent_similarity", pa.float32()),
        ("parent_request", pa.string()),
    ]
)
"""parent: the id of the document that was sent; chunk: the number of its chunk; parent_text: the chunk, as it was sent;
parent_similarity: the Jaccard similarity of the two texts; parent_request: the takedown request that names the parent.
"""


class Config(StageConfig):
    source: str
    """The name of the source."""


def read(piece: Piece, config: Config) -> Iterator[Record]:
    position = 0
    with piece.open() as file:
        groups = pq.ParquetFile(file)
        for number in range(groups.num_row_groups):
            columns = ("parent_id", "parent_license", "parent_snapshot", "chunks", "children", "parent_request")
            for row in groups.read_row_group(number, columns=columns).to_pylist():
                for child in row["children"] or ():
                    if piece.start <= position and (piece.stop is None or position < piece.stop):
                        key = f"{row['parent_id'].hex()}/{child['chunk']}/{child['prompt']}/{child['sample']}"
                        yield Record(
                            position,
                            key,
                            license=row["parent_license"],
                            snapshot=row["parent_snapshot"],
                            text=child["text"],
                            drop=child["drop"],
                            detail=child["detail"],
                            doc_id=hashlib.blake2b(f"{config.source}\0\0{key}".encode(), digest_size=16).digest(),
                            more=(
                                row["parent_id"],
                                child["prompt"],
                                child["model"],
                                child["sample"],
                                child["chunk"],
                                row["chunks"][child["chunk"]],
                                child["similarity"],
                                row["parent_request"],
                            ),
                        )
                    position += 1


STAGE = Reader(
    version=4,
    config=Config,
    libraries=("pyarrow",),
    read=read,
    positions="children of the stored answers",
    columns=COLUMNS,
)
