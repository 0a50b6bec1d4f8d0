"""What a worker does for each kind of work, on a small store and without a coordinator."""

import json
import os
import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from gristmill.engine.work import perform as performing
from gristmill.engine.work.exchange import COARSE, part_id
from gristmill.engine.work.perform import perform
from gristmill.engine.work.task import (
    Build,
    Collect,
    Emit,
    FitWork,
    Gather,
    Hash,
    Layout,
    Make,
    MapWork,
    Merge,
    Read,
    Reduce,
    Scatter,
    Task,
)
from gristmill.errors import UserError
from gristmill.kernels import compiling
from gristmill.places import FileLocation
from gristmill.stages.contract import Piece
from gristmill.stages.ingest import jsonl
from gristmill.store.segments import SegmentTable, read_table
from gristmill.store.store import CorruptPart, Part, Store
from stagebox import broken, bundle, exact, length, longer_than, rarity, upper, vocabulary, word_list

WORDS = ["mill", "grain", "stone"]


class Bench:
    """A store with two parts of documents, and a way to perform work."""

    def __init__(self, folder):
        self.folder, self.store = folder, Store(str(folder / "store"))
        draw = random.Random(3)
        self.texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 3))) for _ in range(40)]
        lines = [json.dumps({"text": text}) for text in self.texts]
        self.documents, self.marks = [], []
        for number, some in enumerate((lines[:25], [*lines[25:], "{broken"])):
            path = folder / f"{number}.jsonl"
            path.write_text("\n".join(some))
            piece = Piece(str(path), path.name)
            work = Read(jsonl.__name__, jsonl.Config(), (piece,), {}, "notes", None, None, 1 << 20)
            result = self.do(work)
            self.documents += result.parts
            self.marks += result.rows_hashes
            self.read = result

    def do(self, work, **more):
        return perform(Task("key", "all/step", "part 7", work, **more), self.store)

    def layer(self, part):
        return pq.read_table(self.store.part_path(part)).to_pydict()

    def sees(self, kind, module, part=0, layers=(), columns=None, gates=(0,), **more):
        """Work of a stage on a document part and its layers; broken rows are hidden."""
        columns = ((0, "text", "text"),) if columns is None else columns
        return kind(module.__name__, module.Config(), (self.documents[part], *layers), columns, gates, {}, **more)

    def emitted(self):
        columns = ((0, "text", "text"), (0, "doc_id", "doc_id"))
        return [self.do(self.sees(Emit, exact, part, columns=columns)) for part in range(2)]

    def segments(self, files, numbers=None):
        table = SegmentTable(files, [read_table(self.store, file) for file in files])
        known = table.destinations() if numbers is None else numbers
        return [segment for number in known for segment in table.to(number)]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_read_makes_parts_of_all_records_good_and_bad(bench):
    layers = [bench.layer(part) for part in bench.documents]
    assert layers[0]["text"] + layers[1]["text"][:15] == bench.texts
    assert layers[1]["drop"][:15] == [None] * 15
    assert layers[1]["drop"][15] is not None
    assert bench.read.metrics["rows"] == 16
    assert sum(bench.read.metrics["dropped"].values()) == 1


def test_map_answers_every_row_and_leaves_hidden_ones_empty(bench):
    """Its rows match the document's; metrics count what was dropped, and hidden rows are null."""
    result = bench.do(bench.sees(MapWork, upper, part=1))
    layer = bench.layer(result.parts[0])
    assert layer["text"] == [*map(str.upper, bench.texts[25:]), None]
    short = [text for text in bench.texts[25:] if len(text) < 10]
    assert layer["drop"] == [*("too_short" if text in short else None for text in bench.texts[25:]), None]
    assert result.metrics["dropped"] == {"too_short": len(short)}
    assert result.metrics["rows"] == 16
    assert result.metrics["bytes_in"] == sum(map(len, bench.texts[25:])) == result.metrics["bytes_out"]
    assert result.rows_hashes == [bench.marks[1]]


def test_map_reads_the_layer_that_it_is_given_a_column_of(bench):
    measured = bench.do(bench.sees(MapWork, length)).parts
    judged = bench.do(bench.sees(MapWork, longer_than, layers=measured, columns=((1, "chars", "length.chars"),)))
    assert bench.layer(judged.parts[0])["drop"] == [None if len(t) > 5 else "not_longer" for t in bench.texts[:25]]


def test_a_poisoned_row_is_hidden_and_has_a_reason(bench):
    """A stage that reads it would die; all other rows have their answers."""
    result = bench.do(bench.sees(MapWork, length, poisoned=((3, "it kills"),)))
    layer = bench.layer(result.parts[0])
    assert (layer["drop"][3], layer["detail"][3], layer["chars"][3]) == ("worker_crashed", "it kills", None)
    assert [chars for row, chars in enumerate(layer["chars"]) if row != 3] == [
        len(text) for row, text in enumerate(bench.texts[:25]) if row != 3
    ]


@pytest.mark.parametrize("kind", [MapWork, Emit])
def test_a_probe_stores_nothing_and_counts_the_rows_of_the_stage(bench, kind):
    """Of the requested rows, without hidden ones."""
    before = sorted(bench.folder.glob("store/parts/*/*"))
    module = exact if kind is Emit else length
    columns = ((0, "text", "text"), (0, "doc_id", "doc_id"))[: 2 if kind is Emit else 1]
    result = bench.do(bench.sees(kind, module, 1, columns=columns, rows=(12, 16)), probe=True)
    assert (result.values, result.parts) == ([3], [])
    assert sorted(bench.folder.glob("store/parts/*/*")) == before


@pytest.mark.parametrize("merged", [False, True])
def test_an_exchange_answers_each_row_from_all_parts(bench, merged):
    """emit, merge if there are many, reduce, collect: of equal texts one stays, and each knows how many there are."""
    sent = [file for result in bench.emitted() for file in result.segment_files]
    if merged:
        (joined,) = bench.do(Merge(tuple(sent), 0, 63, "key", COARSE - 2)).segment_files
        assert joined.segments >= max(file.segments for file in sent)
        sent = [joined]
    answers = bench.do(Reduce(exact.__name__, exact.Config(), "reduce", bench.segments(sent), "part", 0))
    assert answers.metrics["answers"] == 40
    layers = []
    for part, mark in enumerate(bench.marks):
        here = bench.segments(answers.segment_files, [part_id(mark)])
        work = Collect(exact.__name__, exact.Config(), bench.documents[part], here, ((15, "it kills"),))
        layers.append(bench.layer(bench.do(work).parts[0]))
        assert (layers[-1]["drop"][15], layers[-1]["detail"][15]) == ("worker_crashed", "it kills")
    assert [*layers[0]["copies"], *layers[1]["copies"]] == [*map(bench.texts.count, bench.texts), None]
    drops = [*layers[0]["drop"], *layers[1]["drop"]]
    for text in set(bench.texts):
        alike = [drop for drop, other in zip(drops, bench.texts, strict=False) if other == text]
        assert alike.count(None) + alike.count("worker_crashed") >= 1
        assert alike.count(None) <= 1


def test_fit_and_make_write_a_model_that_a_map_uses(bench):
    """Fit reads what is left of all parts; make reads no document."""
    inputs = tuple((part,) for part in bench.documents)
    fit = FitWork(vocabulary.__name__, vocabulary.Config(), inputs, (((0, "text", "text"),),) * 2, ((0,),) * 2, {})
    result = bench.do(fit)
    words = [word for text in bench.texts for word in text.split()]
    assert result.metrics == {"rows": 40, "bytes_in": sum(map(len, bench.texts)), "words": len(WORDS)}
    used = replace(bench.sees(MapWork, rarity), models={"vocabulary": result.parts[0]})
    layer = bench.layer(bench.do(used).parts[0])
    assert layer["rarest"] == [min(map(words.count, text.split())) for text in bench.texts[:25]]
    (bench.folder / "words.txt").write_text("stone mill mill")
    config = word_list.Config(words=str(bench.folder / "words.txt"))
    made = bench.do(Make(word_list.__name__, config, {}))
    assert bench.store.local_path(made.parts[0]).read_text() == "mill\nstone"
    assert made.metrics == {"words": 2}


def test_a_sink_writes_each_record_into_the_files_of_its_entry(bench):
    """scatter, build, gather: the catalogue names the files of every entry."""
    entries = [{"bundle": number} for number in range(4)]
    columns = tuple((0, name, name) for name in bundle.STAGE.reads)
    sent = []
    for part in bench.documents:
        work = Scatter(bundle.__name__, bundle.Config(), (part,), columns, (0,), Layout.of(entries), 0, False)
        sent += bench.do(work).segment_files
    outputs = []
    for number, entry in enumerate(entries):
        result = bench.do(Build(bundle.__name__, bundle.Config(), entry, bench.segments(sent, [number]), {}))
        outputs.append((entry, tuple(result.parts), result.metrics))
    texts = [bench.store.local_path(parts[0]).read_text().split("\n") for _, parts, _ in outputs]
    assert sorted(text for some in texts for text in some) == sorted(bench.texts)
    assert [metrics for *_, metrics in outputs] == [{"documents": len(some)} for some in texts]
    (catalogue,) = bench.do(Gather(bundle.__name__, bundle.Config(), tuple(outputs), {})).parts
    message = json.loads(bench.store.local_path(catalogue).read_text())
    assert message["facts"] == {"per_bundle": 50}
    for one, (entry, parts, metrics) in zip(message["outputs"], outputs, strict=True):
        assert (one["entry"], one["metrics"]) == (entry, metrics)
        assert [one["files"][name]["hash"] for name in bundle.files(bundle.Config())] == [part.hash for part in parts]


def answering(monkeypatch, module, answer):
    monkeypatch.setattr(module, "STAGE", replace(module.STAGE, apply=answer))


def test_a_broken_promise_names_the_step_and_whose_fault_it_is(bench, monkeypatch):
    """A step that ships is Gristmill's fault, another is its owner's; no document is at fault."""
    answering(monkeypatch, length, lambda batch, config: batch)
    for own in (True, False):
        monkeypatch.setattr(performing.own_code, "is_own", lambda module, own=own: own)
        with pytest.raises(UserError) as message:
            bench.do(bench.sees(MapWork, length))
        assert type(message.value) is UserError
        assert str(message.value).startswith("all/step, part 7: stagebox.length.apply wrote the column text")
        assert ("This is a bug in Gristmill: please report it." in str(message.value)) != own
        assert str(message.value).endswith(performing.STOPPED)


def test_a_mistake_of_the_user_keeps_its_message(bench):
    with pytest.raises(UserError) as message:
        bench.do(Hash((FileLocation(str(bench.folder / "gone")),)))
    assert "gone cannot be read: No such file or directory. Finished work is kept." in str(message.value)


def test_a_bug_of_ours_keeps_its_traceback_and_damage_its_part(bench):
    """Neither is disguised as something else: the engine decides."""
    with pytest.raises(ZeroDivisionError):
        bench.do(bench.sees(MapWork, broken))
    gone = Part("ab" * 32, "parquet", 10)
    bench.documents[0] = gone
    with pytest.raises(CorruptPart) as message:
        bench.do(bench.sees(MapWork, length))
    assert message.value.part_hash == gone.hash


def test_compile_time_is_in_the_cost_of_its_task(bench, monkeypatch):
    """And not what earlier tasks compiled."""

    def compiles(batch, config):
        monkeypatch.setattr(compiling, "seconds", compiling.seconds + 5.0)
        return measured(batch, config)

    measured = length.apply
    answering(monkeypatch, length, compiles)
    work = bench.sees(MapWork, length)
    assert [bench.do(work).cost["compile_s"] for _ in range(2)] == [5.0, 5.0]
    answering(monkeypatch, length, measured)
    assert bench.do(work).cost["compile_s"] == 0.0


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak of a process is for ever here")
def test_the_peak_of_a_task_is_its_own(bench, monkeypatch):
    """A task that held a quarter of a gigabyte says so; the next one, which did not, does not."""

    def holds(batch, config):
        return bytearray(1 << 28) and measured(batch, config)

    measured = length.apply
    peaks = []
    for answer in (measured, holds, measured):
        answering(monkeypatch, length, answer)
        peaks.append(bench.do(bench.sees(MapWork, length)).cost["peak_rss_bytes"])
    assert peaks[1] > peaks[0] + (1 << 27)
    assert peaks[2] < peaks[1] - (1 << 27)
