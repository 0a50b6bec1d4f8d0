"""CPU seconds to index one large compressed file of JSON lines, and to read it by tasks and as one stream.

python -m bench._packed FILE.jsonl.gz
"""

import os
import sys
import time

from gristmill.engine.files.grouping import group_files
from gristmill.engine.files.indexing import index_of
from gristmill.engine.files.listing import InputFile
from gristmill.places import place_of
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl

PART_BYTES = 64 << 20


def main(path: str) -> None:
    start = time.process_time()
    with open(path, "rb") as opened:
        view = index_of(opened).stream
    indexing = time.process_time() - start
    assert view is not None, "the file is plain or damaged"
    print(f"{view.size / 1e9:.2f} GB unpacked; index {indexing:.1f} CPU s, {len(view.points)} points", flush=True)
    file = InputFile(path, path, os.path.getsize(path), None, "", place_of(path), view)
    pieces = [piece for group in group_files([file], PART_BYTES, jsonl.STAGE) for piece in group.pieces]
    for label, read in (("by tasks", pieces), ("as one stream", [Piece(path, path)])):
        start = time.process_time()
        records = sum(1 for piece in read for _ in jsonl.read(piece, jsonl.Config()))
        seconds = time.process_time() - start
        print(f"{label}: {len(read)} pieces, {records:,} records, {seconds:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
