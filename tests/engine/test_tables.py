"""Tables of the coordinator hold what mappings and lists of objects would hold."""

import hashlib
import sys

from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.schedule.tables import Files, Layers, Slots, TaskNames
from gristmill.store.store import Part, Verdicts

hashes = st.integers(0, 2**64).map(lambda seed: hashlib.sha256(str(seed).encode()).hexdigest())
sizes = st.integers(0, 2**62)
verdicts = st.builds(Verdicts, hashes, st.integers(0, 2**32 - 1), hashes.map(lambda one: one[:32]))
suffixes = st.sampled_from(["parquet", "json", "ds.index"])
made_parts = st.builds(Part, hashes, suffixes, sizes, sizes, sizes, st.none() | verdicts)
places = st.tuples(st.sampled_from(["a", "web", ""]), st.tuples(st.integers(0, 50), st.integers(0, 3)))
keys = hashes.map(lambda one: one[:32])


@given(st.lists(st.tuples(st.integers(0, 1), places, made_parts, keys)))
def test_layers_are_a_mapping(given_layers):
    """Two stages of a run number parts the same, and each has its own layers."""
    slots = Slots()
    tables, expected = (Layers(slots), Layers(slots)), ({}, {})
    for which, at, part, key in given_layers:
        tables[which][at] = (part, key)
        expected[which][at] = (part, key)
    for table, wanted in zip(tables, expected, strict=True):
        assert dict(table.items()) == wanted
        assert len(table) == len(wanted)
        assert ("nowhere", (0, 0)) not in table


@given(st.lists(st.tuples(keys, st.text(st.characters(codec=None)), st.booleans())), st.integers(1, 4))
def test_names_of_tasks_are_a_mapping(tasks, packed):
    """Labels hold names of files, which may be no UTF-8; a task of two equal parts counts once."""
    table = TaskNames(labels_packed=packed)
    for key, label, executed in tasks:
        table.add(key, label, executed)
    assert dict(table.items()) == {key: label for key, label, _ in tasks}
    assert list(table.each()) == [(key, label) for key, label, _ in tasks]
    assert len(table) == len({key for key, _, _ in tasks})
    assert table.executed == {key for key, _, executed in tasks if executed}


def test_a_task_takes_some_dozen_bytes():
    """A layer and a name together, of a hundred thousand tasks: no more than the hashes and sizes that they hold."""
    layers, names = Layers(Slots()), TaskNames()
    part = Part("ab" * 32, "parquet", 1, 2, 3, Verdicts("cd" * 32, 4, "ef" * 16))
    for number in range(100_000):
        layers["web", (number, 0)] = (part, f"{number:032x}")
        names.add(f"{number:032x}", f"web part {number}.0", False)
    held = [*layers._rows.values(), names._keys, *names._packed, *names._labels, names._executed]
    assert sum(map(sys.getsizeof, held)) < 160 * 100_000


@given(st.lists(made_parts, max_size=20))
def test_files_are_kept_in_order(parts):
    table = Files()
    for part in parts:
        table.add(part)
    assert list(table) == [Part(part.hash, part.suffix, part.file_bytes) for part in parts]
