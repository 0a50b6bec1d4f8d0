"""datatrove's side of bench.pipeline, as a separate program for the Python that has datatrove.

It uses the blocks and settings that made FineWeb (its examples/fineweb.py), one task and one worker, without the
writers of removed documents. Two things differ: the language model is the same file as ours, and a page may take
TIMEOUT_S where FineWeb gave it one second of wall time, so that a busy machine does not lose pages.

    python _pipeline_datatrove.py FOLDER_OF_WARC_FILES FOLDER_FOR_ALL_ELSE LANGUAGE_MODEL

It prints a JSON object with the number of documents read, extracted, left by the filters, and kept.
"""

import json
import os
import sys

TIMEOUT_S = 60


def main(crawl: str, work: str, language_model: str) -> None:
    os.environ["HF_ASSETS_CACHE"] = f"{work}/assets"  # the folder that datatrove copies the model to

    import trafilatura  # noqa: F401  the process that extracts is forked from this one
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupBuckets
    from datatrove.pipeline.extractors import Trafilatura
    from datatrove.pipeline.filters import (
        C4QualityFilter,
        FineWebQualityFilter,
        GopherQualityFilter,
        GopherRepetitionFilter,
        LanguageFilter,
    )
    from datatrove.pipeline.readers import JsonlReader, WarcReader
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.lid import FT176LID

    FT176LID.MODEL_URL = language_model
    config = MinhashConfig(hash_config=HashConfig(precision=64))

    def run(name: str, steps: list, tasks: int = 1) -> list[dict]:
        """Runs the steps and returns the counts of each."""
        done = LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=f"{work}/logs/{name}").run()
        return [dict(step.stats) for step in done.stats]

    filtered = run(
        "filters",
        [
            WarcReader(crawl),
            Trafilatura(favour_precision=True, timeout=TIMEOUT_S),
            LanguageFilter(languages=["en"]),
            GopherRepetitionFilter(),
            GopherQualityFilter(),
            C4QualityFilter(filter_no_terminal_punct=False),
            FineWebQualityFilter(),
            JsonlWriter(f"{work}/filtered"),
        ],
    )
    counts = {"read": total(filtered, 1, "total"), "extracted": total(filtered, 1, "forwarded")}
    counts["filtered"] = counts["kept"] = total(filtered, 6, "forwarded")
    if counts["filtered"]:  # its reader refuses a folder without files
        run("signatures", [JsonlReader(f"{work}/filtered"), MinhashDedupSignature(f"{work}/signatures", config)])
        run(
            "buckets",
            [MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config)],
            tasks=config.num_buckets,
        )
        run("clusters", [MinhashDedupCluster(f"{work}/buckets", f"{work}/remove", config)])
        steps = [JsonlReader(f"{work}/filtered"), MinhashDedupFilter(f"{work}/remove"), JsonlWriter(f"{work}/kept")]
        counts["kept"] = total(run("deduplicated", steps), 1, "forwarded")
    print(json.dumps(counts))


def total(steps: list[dict], number: int, name: str) -> int:
    return int(steps[number][name].total) if name in steps[number] else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
