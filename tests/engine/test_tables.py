"""Tables of the coordinator hold the same as mappings and lists of objects would."""

import hashlib
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.engine.schedule.tables import PartFiles, PartLayers, Slots, TaskNames
from gristmill.engine.schedule.task_cache import NodeState
from gristmill.engine.work.task import layer_hash, part_to_json
from gristmill.store.store import Part, Verdicts, with_verdicts

hashes = st.integers(0, 2**64).map(lambda seed: hashlib.sha256(str(seed).encode()).hexdigest())
sizes = st.integers(0, 2**62)
verdicts = st.builds(Verdicts, hashes, st.integers(0, 2**32 - 1), hashes.map(lambda one: one[:32]))
suffixes = st.sampled_from(["parquet", "json", "ds.index"])
made_parts = st.builds(Part, hashes, suffixes, sizes, sizes, sizes, st.none() | verdicts)
places = st.tuples(st.sampled_from(["a", "web", ""]), st.tuples(st.integers(0, 50), st.integers(0, 3)))
keys = hashes.map(lambda one: one[:32])


@given(st.lists(st.tuples(st.integers(0, 1), places, made_parts, keys)))
def test_layers_are_a_mapping(given_layers):
    """Two stages of a run number parts the same way, and each has its own layers."""
    slots = Slots()
    tables, expected = (PartLayers(slots), PartLayers(slots)), ({}, {})
    for which, at, part, key in given_layers:
        tables[which][at] = (part, key)
        expected[which][at] = (part, key)
    for table, wanted in zip(tables, expected, strict=True):
        assert dict(table.items()) == wanted
        assert len(table) == len(wanted)
        assert ("nowhere", (0, 0)) not in table


@given(st.lists(st.tuples(places, made_parts, keys), unique_by=lambda one: one[0]), st.booleans())
def test_layers_come_one_by_one_or_many_at_once(given_layers, verdicts_only):
    """From the entries of a manifest; also over existing ones, and in another order than their numbers."""
    slots = Slots()
    single, many = PartLayers(slots), PartLayers(slots)
    for at, part, key in given_layers:
        single[at] = (part, key)
    for at, (part, key) in list(single.items())[::2]:
        many[at] = (replace(part, rows=part.rows + 1), key)
    for source in ("a", "web", ""):
        chosen = [(order, part, key) for (where, order), part, key in reversed(given_layers) if where == source]
        orders = [order for order, _, _ in chosen]
        many.fill(source, orders, [{**part_to_json(part), "task": key} for _, part, key in chosen])
        expected = [layer_hash(part, verdicts_only) for _, part, _ in chosen]
        assert many.hashes(source, orders, verdicts_only) == expected
    assert dict(many.items()) == dict(single.items())
    assert len(many) == len(single)


def test_a_manifest_with_other_layers_than_parts_is_refused():
    part = {**part_to_json(Part("ab" * 32, "parquet", 1, 2, 3)), "task": "cd" * 16}
    with pytest.raises(ValueError, match="1 layers for 2"):
        PartLayers().fill("web", [(0, 0), (1, 0)], [part])


@given(st.lists(st.tuples(places, made_parts, keys)), st.lists(made_parts))
def test_a_file_counts_once_among_those_that_a_step_has_stored(given_layers, files):
    """Layers, their verdicts, and files of exchanges; checked against a mapping of hash to size."""
    made, held = NodeState(), {}
    for at, part, key in given_layers:
        made.layers[at] = (_sized(part), key)
        held[at] = _sized(part)
    for part in files:
        made.files.add(_sized(part))
    everything = with_verdicts([*held.values(), *(replace(_sized(part), verdicts=None) for part in files)])
    assert made.stored_bytes == sum({part.hash: part.file_bytes for part in everything}.values())


def _sized(part):
    """The same content has the same size."""
    of = part.verdicts
    beside = None if of is None else replace(of, file_bytes=int(of.hash[:8], 16))
    return replace(part, file_bytes=int(part.hash[:8], 16), verdicts=beside)


@given(st.lists(st.tuples(keys, st.text(st.characters(codec=None))), unique_by=lambda one: one[0]), st.integers(1, 4))
def test_names_of_tasks_come_one_by_one_or_many_at_once(tasks, packed):
    """After existing ones, in the same order."""
    one, many = TaskNames(labels_packed=packed), TaskNames(dict(tasks[:5]), packed)
    for key, label in tasks:
        one.add(key, label, False)
    for key, label in tasks[5:]:
        many.add(key, label, False)
    assert list(many.each()) == list(one.each())
    assert len(many) == len(one)
    assert (many._keys, many._packed, many._executed) == (one._keys, one._packed, one._executed)


@given(st.lists(st.tuples(keys, st.text(st.characters(codec=None)), st.booleans())), st.integers(1, 4))
def test_names_of_tasks_are_a_mapping(tasks, packed):
    """Labels have names of files, which may not be UTF-8; a task of two equal parts counts once."""
    table = TaskNames(labels_packed=packed)
    for key, label, executed in tasks:
        table.add(key, label, executed)
    assert dict(table.items()) == {key: label for key, label, _ in tasks}
    assert list(table.each()) == [(key, label) for key, label, _ in tasks]
    assert len(table) == len({key for key, _, _ in tasks})
    assert table.executed == {key for key, _, executed in tasks if executed}


def test_a_task_takes_some_dozen_bytes():
    """A layer and a name together, for a hundred thousand tasks: no more than the hashes and sizes that they hold."""
    layers, names = PartLayers(Slots()), TaskNames()
    part = Part("ab" * 32, "parquet", 1, 2, 3, Verdicts("cd" * 32, 4, "ef" * 16))
    for number in range(100_000):
        layers["web", (number, 0)] = (part, f"{number:032x}")
        names.add(f"{number:032x}", f"web part {number}.0", False)
    held = [*layers._rows.values(), names._keys, *names._packed, *names._labels, names._executed]
    assert sum(map(sys.getsizeof, held)) < 160 * 100_000


@given(st.lists(made_parts, max_size=20))
def test_files_are_kept_in_order(parts):
    """One by one, or many at once."""
    one, many = PartFiles(), PartFiles([(part.hash, part.suffix, part.file_bytes) for part in parts[:3]])
    for part in parts:
        one.add(part)
    for part in parts[3:]:
        many.add(part)
    assert list(one) == list(many) == [Part(part.hash, part.suffix, part.file_bytes) for part in parts]
