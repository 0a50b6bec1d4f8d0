"""The order of work in an exchange: what every part sends, rounds of partitions, and the answers for every part."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.seen import Document
from gristmill.engine.schedule.tables import SegmentTable
from gristmill.engine.work.borders import check_destinations
from gristmill.engine.work.exchange import part_number
from gristmill.engine.work.task import Collect, Emit, Reduce, Result, add_counts
from gristmill.errors import UserError

if TYPE_CHECKING:
    from gristmill.engine.schedule.run import Run

PARTITIONS = 64
"""Partitions of an exchange whose config does not set `partitions`."""


class Exchange:
    """One exchange of a run: what was sent, until it is answered; the answers, until the last part has its own."""

    def __init__(self, run: "Run", node: Node) -> None:
        self._run = run
        self._node = node
        self._partitions: int = getattr(node.config, "partitions", PARTITIONS)
        self._sent = SegmentTable()
        self._poisoned: dict[Document, list[list[Any]]] = {}
        """Records that kill whoever would send them."""
        self._answers = SegmentTable()

    async def emit(self, document: Document) -> bool:
        run, node = self._run, self._node
        view = node.views[document.source]
        layers, models = run.view(document, node), run.models(node)
        work = Emit(node.module, node.config, layers, view.columns, view.gates, models, partitions=self._partitions)
        inputs = {**run.map_inputs(work), "verb": "emit", "partitions": self._partitions}
        _, result = await run.tasks.obtain(node, work, inputs, f"{document.label} emit", document.order)
        if result is None:
            return False
        self._count(document, result, "rows_sent")
        if result.poisoned:
            self._poisoned[document] = result.poisoned
        place = (node.sources.index(document.source), *document.order)
        self._sent.add(place, result.parts[0], result.segments)
        return True

    async def answer(self) -> bool:
        """Carry out all rounds, when every part has sent what it has; False where a dry run cannot."""
        run, node = self._run, self._node
        documents = run.all_documents(node)
        _refuse_equal_numbers(documents)
        table, self._sent = self._sent, SegmentTable()
        functions: Sequence[str] = getattr(importlib.import_module(node.module), "ROUNDS", ("reduce",))
        for number, function in enumerate(functions):
            table.gather()
            last = number == len(functions) - 1
            destinations = table.destinations()
            run.listener.expect(node, len(destinations))
            if last:
                run.listener.settled(node)
            made = SegmentTable()
            partitions = None if last else self._partitions
            reduces = (self._reduce(function, number, to, table, made, partitions) for to in destinations)
            whole = await run.each(reduces, large=True)
            if not all(whole):
                return False
            table = made
        table.gather()
        known = {str(part_number(document.rows_mark)) for document in documents}
        check_destinations([str(to) for to in table.destinations()], known, node.id, node.module)
        self._answers = table
        return True

    async def _reduce(
        self,
        function: str,
        number: int,
        to: int,
        table: SegmentTable,
        made: SegmentTable,
        partitions: int | None,
    ) -> bool:
        node = self._node
        segments = table.to(to)
        work = Reduce(node.module, node.config, function, segments, partitions)
        inputs = {
            "verb": function,
            "round": number,
            "segments": segments.hashes,
            "partitions": partitions,
        }
        label = f"round {number + 1} partition {to}"
        _, result = await self._run.tasks.obtain(node, work, inputs, label, (number, to))
        if result is not None and result.parts:
            made.add((to,), result.parts[0], result.segments)
        return result is not None

    async def collect(self, document: Document) -> bool:
        node = self._node
        segments = self._answers.to(part_number(document.rows_mark))
        given_up = self._poisoned.get(document, [])
        poisoned = tuple((row, detail) for row, detail in given_up)
        work = Collect(node.module, node.config, document.part, segments, poisoned)
        inputs = {
            "verb": "collect",
            "rows": document.rows_mark,
            "segments": segments.hashes,
            "poisoned": given_up,
        }
        task, result = await self._run.tasks.obtain(node, work, inputs, document.label, document.order)
        if result is None:
            return False
        self._count(document, result, "dropped")
        return self._run.keep(document, node, task, result)

    def _count(self, document: Document, result: Result, name: str) -> None:
        """An exchange sees many sources at once; what each of them lost is counted apart."""
        counts = {"sources": {document.source: {name: result.metrics[name]}}}
        add_counts(self._run.made[self._node.id].metrics, counts)

    def forget(self) -> None:
        """All parts have their answers."""
        self._answers = SegmentTable()


def _refuse_equal_numbers(documents: Sequence[Document]) -> None:
    """Records name their part by 64 bits; answers to two parts of the same number would be mixed up."""
    known: dict[int, Document] = {}
    for document in documents:
        other = known.setdefault(part_number(document.rows_mark), document)
        if other is not document:
            raise UserError(
                f"{other.label} and {document.label} have the same number ({part_number(document.rows_mark):x}) by "
                "chance, and an exchange would mix up their documents. What is finished is kept. Change part_bytes of "
                "a source by a byte and run again."
            )
