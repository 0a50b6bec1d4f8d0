"""A sink: texts go to bundles by their id, and each bundle is two files."""

import pyarrow as pa

from gristmill.stages.contract import Sink, StageConfig

RECORD_SCHEMA = pa.schema([("doc_id", pa.binary(16)), ("text", pa.string())])


class Config(StageConfig):
    per_bundle: int = 50
    """Documents."""
    with_sizes: bool = True
    """Whether a second file tells how long the texts are."""


def files(config):
    return ("texts.txt", "sizes.txt") if config.with_sizes else ("texts.txt",)


def layout(counts, config):
    bundles = 1 << max(counts["documents"] // config.per_bundle, 1).bit_length()
    return {"notes": [{"bundle": number, "of": bundles} for number in range(bundles)]}


def emit(batch, config, layout):
    keys = [doc_id[0] * len(layout) >> 8 for doc_id in batch["doc_id"].to_pylist()]
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.uint64()), batch["doc_id"], batch["text"]], names=["key", *RECORD_SCHEMA.names]
    )


def build(records, config, entry, folder):
    records = records.sort_by("doc_id")
    texts = records["text"].to_pylist()
    (folder / "texts.txt").write_text("\n".join(texts))
    if config.with_sizes:
        (folder / "sizes.txt").write_text("\n".join(str(len(text)) for text in texts))
    return {"documents": len(texts)}


def facts(config):
    return {"per_bundle": config.per_bundle}


STAGE = Sink(
    config=Config,
    reads=("doc_id", "text", "source"),
    only_kept=True,
    counts="weigh",
    record_schema=RECORD_SCHEMA,
    layout=layout,
    emit=emit,
    build=build,
    files=files,
    facts=facts,
)
