"""Labels of a person: JSON lines that `classifiers` of a recipe read under `labels`.

A good document has the score 5, a bad one 0: the scale that training expects. A new label is appended at once; another
label of the same document replaces its line.
"""

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gristmill.errors import UserError
from gristmill.hints import option
from gristmill.places import kind_of
from gristmill.query.documents.documents import Row

GOOD, BAD = 5, 0
"""Scores."""
MOST_NOTE = 2000
"""Characters of a note."""
_ID = re.compile("[0-9a-f]{32}")
Z = 1.96
"""A 95% interval."""


class LabelFile:
    """The labels in a file, by document."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._lines: dict[str, dict[str, Any]] = {}
        if not path.parent.is_dir():
            raise UserError(f"{path} cannot be written: there is no folder {path.parent}. Create it.")
        if path.exists():
            if not path.is_file():
                raise UserError(
                    f"{path} is {kind_of(path.stat().st_mode)}, so it cannot have labels. Name a file: "
                    f"{option('labels', 'FILE')}"
                )
            try:
                lines = path.read_bytes().splitlines()
            except OSError as error:
                raise UserError(
                    f"{path} cannot be read ({error.strerror}). Name another file: {option('labels', 'FILE')}"
                ) from None
            for number, line in enumerate(lines, 1):
                label = _checked(path, number, line)
                self._lines[label["doc_id"]] = label

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter([*self._lines.values()])

    def get(self, doc_id: str) -> Mapping[str, Any] | None:
        return self._lines.get(doc_id)

    def set(self, row: Row, score: int | None, note: str) -> None:
        """Label a document; None removes its label. A withheld document has no text to learn from."""
        if score is not None and (row.withheld is not None or not row.text):
            raise UserError("This document has no text that can be shown, so it cannot be labelled.")
        doc_id = row.fields["doc_id"].hex()
        with self._lock:
            was_there = self._lines.pop(doc_id, None) is not None
            if score is not None:
                self._lines[doc_id] = {
                    "text": row.text,
                    "score": score,
                    "url": row.fields["url"],
                    "note": note[:MOST_NOTE],
                    "doc_id": doc_id,
                    "source": row.fields["source"],
                    "step": row.step,
                    "reason": row.reason,
                }
            try:
                if was_there or score is None:
                    temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
                    temporary.write_bytes(b"".join(map(_line, self._lines.values())))
                    os.replace(temporary, self.path)
                else:
                    with self.path.open("ab+") as file:
                        size = file.seek(0, os.SEEK_END)
                        file.seek(max(0, size - 1))
                        is_torn = file.read() not in (b"", b"\n")  # no line end: an editor, or a write that failed
                        file.write(b"\n" * is_torn + _line(self._lines[doc_id]))
            except OSError as error:
                raise UserError(f"{self.path} cannot be written ({error.strerror}), so the label is lost.") from None


def _line(label: Mapping[str, Any]) -> bytes:
    return json.dumps(label).encode() + b"\n"


def _checked(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
        is_id = _ID.fullmatch(found["doc_id"]) is not None
        if is_id and found["score"] in (GOOD, BAD) and isinstance(found["note"], str):
            return dict(found)
    except (ValueError, TypeError, KeyError):
        pass
    raise UserError(
        f"{path}: line {number} is not a label of the explorer, so the file is left alone. Remove the line, or name "
        f"another file: {option('labels', 'FILE')}"
    )


def wilson(hits: int, number: int) -> tuple[float, float]:
    """The 95% interval of a share (Wilson 1927): useful from the first label on."""
    if not number:
        return 0.0, 1.0
    share = hits / number
    middle = share + Z * Z / (2 * number)
    half = Z * (share * (1 - share) / number + Z * Z / (4 * number * number)) ** 0.5
    scale = 1 + Z * Z / number
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
