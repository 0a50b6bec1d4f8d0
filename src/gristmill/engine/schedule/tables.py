"""What a coordinator remembers about millions of tasks: a few dozen bytes each, instead of objects of some kilobytes.

A layer is a row of fixed size, found by the number of its document part; the tasks of a stage are concatenated keys,
and compressed labels. Each class behaves like a mapping or a list.
"""

import marshal
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gristmill.store.store import Part, Verdicts

if TYPE_CHECKING:  # NumPy is imported where many rows are processed: commands that read records do not need it
    from numpy.typing import NDArray

Order = tuple[int, int]
"""The position of a document part in its source: the number of its read task, and its index in that task's output."""
At = tuple[str, Order]
"""Source and order."""

_LAYER = struct.Struct("<?B32s16sQQQ?32sI16s")
_LAYER_FIELDS = [
    ("there", "?"),
    ("suffix", "u1"),
    ("hash", "V32"),
    ("task", "V16"),
    ("file_bytes", "<u8"),
    ("rows", "<u8"),
    ("payload_bytes", "<u8"),
    ("has_verdicts", "?"),
    ("verdicts", "V32"),
    ("verdicts_bytes", "<u4"),
    ("drop", "V16"),
]
"""The same layout, for many rows at once."""
_FILE = struct.Struct("<B32sQ")
_FILE_FIELDS = [("suffix", "u1"), ("hash", "V32"), ("file_bytes", "<u8")]
_NO_VERDICTS = ("00" * 32, 0, "00" * 16)
_KEY_BYTES = 16
Sizes = tuple["NDArray[Any]", "NDArray[Any]"]
"""Hashes of files, and their bytes."""
RECENT = 1024
"""Layers of a stage that are cached as objects."""
LABELS = 256
"""Labels of tasks that are compressed together."""


class Slots:
    """The number of every document part of a source, the same in all tables of a run."""

    def __init__(self) -> None:
        self._slots: dict[str, dict[Order, int]] = {}

    def take(self, source: str, order: Order) -> int:
        here = self._slots.setdefault(source, {})
        return here.setdefault(order, len(here))

    def find(self, at: At) -> int | None:
        return self._slots.get(at[0], {}).get(at[1])

    def of(self, source: str) -> Mapping[Order, int]:
        return self._slots.get(source, {})


class _Suffixes:
    """File types by number."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def number(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def name(self, number: int) -> str:
        return self._names[number]


class PartLayers(Mapping[At, tuple[Part, str]]):
    """(source, order of the document part) -> layer and the key of its task."""

    def __init__(self, slots: Slots | None = None) -> None:
        self._slots = slots or Slots()
        self._rows: dict[str, bytearray] = {}
        self._suffixes = _Suffixes()
        self._count = 0
        self._recent: dict[At, tuple[Part, str]] = {}
        """Layers of parts in progress: all later stages read them."""

    def __setitem__(self, at: At, layer: tuple[Part, str]) -> None:
        if len(self._recent) == RECENT:
            self._recent.clear()
        self._recent[at] = layer
        source, order = at
        part, key = layer
        start = self._slots.take(source, order) * _LAYER.size
        rows = self._rows.setdefault(source, bytearray())
        if len(rows) < start + _LAYER.size:
            rows.extend(bytes(start + _LAYER.size - len(rows)))
        self._count += not rows[start]
        suffix = self._suffixes.number(part.suffix)
        sizes = (part.file_bytes, part.rows, part.payload_bytes)
        verdicts = (False, b"", 0, b"")
        if part.verdicts is not None:
            of = part.verdicts
            verdicts = (True, bytes.fromhex(of.hash), of.file_bytes, bytes.fromhex(of.drop))
        _LAYER.pack_into(rows, start, True, suffix, bytes.fromhex(part.hash), bytes.fromhex(key), *sizes, *verdicts)

    def fill(self, source: str, orders: Sequence[Order], entries: Sequence[Mapping[str, Any]]) -> None:
        """Set the layers of many document parts from the entries of a manifest (`part_to_json`, and the task)."""
        import numpy as np

        if len(orders) != len(entries):
            raise ValueError(f"{len(entries)} layers for {len(orders)} document parts")
        new = np.zeros(len(orders), _LAYER_FIELDS)
        verdicts = [entry.get("verdicts", _NO_VERDICTS) for entry in entries]
        new["there"] = True
        new["suffix"] = [self._suffixes.number(entry["suffix"]) for entry in entries]
        new["hash"] = _packed([entry["hash"] for entry in entries], "V32")
        new["task"] = _packed([entry["task"] for entry in entries], "V16")
        for name in ("file_bytes", "rows", "payload_bytes"):
            new[name] = [entry[name] for entry in entries]
        new["has_verdicts"] = ["verdicts" in entry for entry in entries]
        new["verdicts"] = _packed([one for one, _, _ in verdicts], "V32")
        new["verdicts_bytes"] = [size for _, size, _ in verdicts]
        new["drop"] = _packed([drop for _, _, drop in verdicts], "V16")
        slots = np.fromiter((self._slots.take(source, order) for order in orders), np.intp)
        rows = self._rows.setdefault(source, bytearray())
        rows.extend(bytes(max(0, (int(slots.max(initial=-1)) + 1) * _LAYER.size - len(rows))))
        table = np.frombuffer(rows, _LAYER_FIELDS)
        self._count += len(orders) - int(table["there"][slots].sum())
        table[slots] = new
        self._recent.clear()

    def hashes(self, source: str, orders: Iterable[Order], verdicts_only: bool) -> list[str]:
        """The hashes of layers that enter a key (`layer_hash`), for document parts in their order."""
        import numpy as np

        slots = self._slots.of(source)
        at = np.fromiter((slots[order] for order in orders), np.intp)
        rows = np.frombuffer(self._rows.get(source, b""), _LAYER_FIELDS)[at]
        found = _hex(rows["hash"])
        if not verdicts_only:
            return found
        has_verdicts = rows["has_verdicts"].tolist()
        return [drop if has else one for has, drop, one in zip(has_verdicts, _hex(rows["drop"]), found, strict=True)]

    def sizes(self) -> Iterator[Sizes]:
        """Sizes of the layers, and of their verdict files."""
        import numpy as np

        for rows in self._rows.values():
            table = np.frombuffer(rows, _LAYER_FIELDS)
            layers, verdicts = table[table["there"]], table[table["has_verdicts"]]
            yield layers["hash"], layers["file_bytes"]
            yield verdicts["verdicts"], verdicts["verdicts_bytes"]

    def __getitem__(self, at: At) -> tuple[Part, str]:
        if (recent := self._recent.get(at)) is not None:
            return recent
        slot = self._slots.find(at)
        found = None if slot is None else self._read(at[0], slot)
        if found is None:
            raise KeyError(at)
        return found

    def _read(self, source: str, slot: int) -> tuple[Part, str] | None:
        rows, start = self._rows.get(source, b""), slot * _LAYER.size
        if start >= len(rows) or not rows[start]:
            return None
        _, suffix, part_hash, key, *rest = _LAYER.unpack_from(rows, start)
        file_bytes, row_count, payload_bytes, has_verdicts, verdicts_hash, size, drop = rest
        verdicts = Verdicts(verdicts_hash.hex(), size, drop.hex()) if has_verdicts else None
        name = self._suffixes.name(suffix)
        return Part(part_hash.hex(), name, file_bytes, row_count, payload_bytes, verdicts), key.hex()

    def __iter__(self) -> Iterator[At]:
        for source in list(self._rows):
            for order, slot in list(self._slots.of(source).items()):
                if self._read(source, slot) is not None:
                    yield source, order

    def __len__(self) -> int:
        return self._count


class TaskNames(Mapping[str, str]):
    """Key -> label of the tasks of a stage. Labels are similar, so many of them are compressed together."""

    def __init__(self, known: Mapping[str, str] | None = None, labels_packed: int = LABELS) -> None:
        """`known` are tasks that were done before."""
        self._labels_packed = labels_packed
        known = known or {}
        self._keys = bytearray.fromhex("".join(known))
        self._executed = bytearray(len(known))
        self._distinct: int | None = len(known)
        """How many keys differ; None if they must be counted again."""
        self._packed: list[bytes] = []
        self._labels: list[str] = []
        """The last labels, not compressed yet."""
        for label in known.values():
            self._add_label(label)

    def add(self, key: str, label: str, executed: bool) -> None:
        """Add a finished task; `executed` says whether this run executed it."""
        self._keys += bytes.fromhex(key)
        self._add_label(label)
        self._executed.append(executed)
        self._distinct = None

    def _add_label(self, label: str) -> None:
        self._labels.append(label)
        if len(self._labels) == self._labels_packed:
            self._packed.append(zlib.compress(marshal.dumps(self._labels), 1))
            self._labels.clear()

    @property
    def executed(self) -> set[str]:
        """Keys of the tasks that this run executed."""
        import numpy as np

        executed = np.frombuffer(self._executed, "?")
        return set(_hex(np.frombuffer(self._keys, "V16")[executed]))

    def _all_keys(self) -> Iterator[str]:
        return (self._keys[start : start + _KEY_BYTES].hex() for start in range(0, len(self._keys), _KEY_BYTES))

    def _all_labels(self) -> Iterator[str]:
        for packed in self._packed:
            yield from marshal.loads(zlib.decompress(packed))
        yield from self._labels

    def _dict(self) -> dict[str, str]:
        return dict(self.each())

    def each(self) -> Iterator[tuple[str, str]]:
        """Key and label of every task; a task that two document parts share comes twice."""
        return zip(self._all_keys(), self._all_labels(), strict=True)

    def __getitem__(self, key: str) -> str:
        return self._dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def __len__(self) -> int:
        """Two document parts with the same content have one task."""
        if self._distinct is None:
            import numpy as np

            self._distinct = len(np.unique(np.frombuffer(self._keys, "S16")))
        return self._distinct

    def items(self) -> Iterable[tuple[str, str]]:  # type: ignore[override]
        return self._dict().items()

    def values(self) -> Iterable[str]:  # type: ignore[override]
        return self._dict().values()


class PartFiles:
    """Parts of a stage other than layers: the files of an exchange or a sink."""

    def __init__(self, known: Sequence[tuple[str, str, int]] = ()) -> None:
        """`known` has hash, suffix and size of files that were made before."""
        self._suffixes = _Suffixes()
        self._rows = bytearray()
        for part_hash, suffix, size in known:
            self._rows += _FILE.pack(self._suffixes.number(suffix), bytes.fromhex(part_hash), size)

    def add(self, part: Part) -> None:
        self._rows += _FILE.pack(self._suffixes.number(part.suffix), bytes.fromhex(part.hash), part.file_bytes)

    def sizes(self) -> Sizes:
        import numpy as np

        table = np.frombuffer(self._rows, _FILE_FIELDS)
        return table["hash"], table["file_bytes"]

    def __iter__(self) -> Iterator[Part]:
        for suffix, part_hash, size in _FILE.iter_unpack(self._rows):
            yield Part(part_hash.hex(), self._suffixes.name(suffix), size)


def bytes_of(files: Iterable[Sizes]) -> int:
    """The total size of files; duplicates count once."""
    import numpy as np

    hashes, sizes = zip(*files, strict=True)
    # Compared as strings, which is faster and equally exact: all have the same length.
    _, first = np.unique(np.concatenate(hashes).view("S32"), return_index=True)
    return int(np.concatenate(sizes)[first].sum())


def _packed(names: Sequence[str], kind: str) -> "NDArray[Any]":
    """Hashes of equal length, from hexadecimal."""
    import numpy as np

    return np.frombuffer(bytes.fromhex("".join(names)), kind)


def _hex(hashes: "NDArray[Any]") -> list[str]:
    """The inverse of `_packed`."""
    return hashes.tobytes().hex(" ", hashes.itemsize).split()
