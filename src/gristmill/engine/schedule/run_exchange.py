"""Schedules an exchange: what every part sends, the rounds of reducers, and the answers for every part."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from gristmill.engine.plan.graph import Node
from gristmill.engine.schedule.corpus_view import DocumentPart
from gristmill.engine.schedule.run_context import RunContext
from gristmill.engine.schedule.shuffle import FEW_MORE, Route, Sent, by_destination, by_range, packed, weigh
from gristmill.engine.work.borders import check_destinations, check_totals
from gristmill.engine.work.exchange import COARSE, part_id
from gristmill.engine.work.task import Collect, Emit, Reduce, Result, add_counts
from gristmill.errors import UserError
from gristmill.stages import contract
from gristmill.stages.declarations import stage_of
from gristmill.store.segments import SegmentFile, SegmentList, SegmentTable

BITS = 64
_BY_KEY = Route("key", COARSE)


class ExchangeRun:
    """One exchange of a run: holds what was sent until it is reduced, and the answers until every part has its own."""

    def __init__(self, run: RunContext, node: Node) -> None:
        self._run = run
        self._node = node
        self._positions = {source: position for position, source in enumerate(node.sources)}
        self._sent = Sent()
        self._tally: dict[str, Any] = {}
        self._poisoned: dict[DocumentPart, list[list[Any]]] = {}
        """Records that kill the worker that would send them."""
        self._answers: list[tuple[int, SegmentTable]] = []
        """For each span of parts, in order: its last part, and its table."""

    async def emit(self, document: DocumentPart) -> bool:
        run, node = self._run, self._node
        view = node.views[document.source]
        layers, models = run.view(document, node), run.models(node)
        work = Emit(node.module, node.config, layers, view.columns, view.gates, models)
        inputs = {**run.map_inputs(work), "verb": "emit"}
        _, result = await run.tasks.obtain(node, work, inputs, f"{document.label} emit", document.order)
        if result is None:
            return False
        self._count(document, result, "rows_sent")
        add_counts(self._tally, result.tally)
        if result.poisoned:
            self._poisoned[document] = result.poisoned
        order = (self._positions[document.source], *document.order)
        self._sent.add(order, result.segment_files)
        return True

    async def answer(self) -> bool:
        """Run all rounds, once every part has sent its records; False if a dry run cannot."""
        run, node = self._run, self._node
        documents = run.all_documents(node)
        _refuse_equal_numbers(documents)
        files, self._sent = self._sent.files(), Sent()
        stage = stage_of(node.module, contract.Exchange)
        totals = None
        if stage.totals is not None:
            totals = check_totals(stage.totals(self._tally, node.config), node.module)
        functions = stage.all_rounds
        for number, function in enumerate(functions):
            last = number == len(functions) - 1
            found = await self._round(function, number, files, totals, len(documents) if last else None)
            if found is None:
                return False
            files, route = found
        run.listener.settled(node)
        known = {part_id(document.rows_hash) for document in documents}

        async def keep(table: SegmentTable) -> tuple[list[int], SegmentTable]:
            check_destinations(parts := table.destinations(), known, node.id, node.module)
            return parts, table

        answers = await by_destination(run, node, "answers", files, route, len(documents), keep)
        self._answers += [(parts[-1], table) for parts, table in answers or () if parts]
        return answers is not None

    async def _round(
        self, function: str, number: int, files: Sequence[SegmentFile], totals: object, parts: int | None
    ) -> tuple[list[SegmentFile], Route] | None:
        """What the reducers of a round send, and how; `parts` is set in the last round: how many parts get answers."""
        run, node = self._run, self._node
        spans = await weigh(run, files)
        route = _BY_KEY if parts is None else Route.to_each("part", spans.reducers, parts, BITS)
        output = Sent()

        async def reduce(table: SegmentTable, shift: int) -> bool | None:
            ranges = packed(table, spans.target)
            ranges.sort(key=lambda keys: -table.to(*keys).memory)  # the largest first
            run.listener.expect(node, len(ranges))
            reduces = (
                self._reduce(function, number, keys, shift, table.to(*keys), route, totals, output) for keys in ranges
            )
            return all(await run.each(reduces, at_once=run.slots + FEW_MORE)) or None

        whole = await by_range(run, node, f"round {number + 1}", spans, _BY_KEY, reduce)
        return (output.files(), route) if whole else None

    async def _reduce(
        self,
        function: str,
        number: int,
        keys: tuple[int, int],
        shift: int,
        segments: SegmentList,
        route: Route,
        totals: object,
        output: Sent,
    ) -> bool:
        node = self._node
        work = Reduce(node.module, node.config, function, segments, route.column, route.coarse, totals)
        inputs = {
            "verb": function,
            "round": number,
            "segments": segments.hashes,
            "route": [route.column, route.coarse],
            "totals": totals,
        }
        first, last = keys[0] << shift, ((keys[1] + 1) << shift) - 1
        label = f"round {number + 1} keys {first >> 48:04x}-{last >> 48:04x}"
        _, result = await self._run.tasks.obtain(node, work, inputs, label, (number, keys[0]))
        if result is not None:
            output.add((first,), result.segment_files)
        return result is not None

    async def collect(self, document: DocumentPart) -> bool:
        node = self._node
        segments = self._of_part(part_id(document.rows_hash))
        given_up = self._poisoned.get(document, [])
        poisoned = tuple((row, detail) for row, detail in given_up)
        work = Collect(node.module, node.config, document.part, segments, poisoned)
        inputs = {
            "verb": "collect",
            "rows": document.rows_hash,
            "segments": segments.hashes,
            "poisoned": given_up,
        }
        task, result = await self._run.tasks.obtain(node, work, inputs, document.label, document.order)
        if result is None:
            return False
        self._count(document, result, "dropped")
        return self._run.keep(document, node, task, result)

    def _of_part(self, number: int) -> SegmentList:
        at = bisect_left(self._answers, number, key=itemgetter(0))
        return self._answers[at][1].to(number) if at < len(self._answers) else SegmentTable([], []).to(number)

    def _count(self, document: DocumentPart, result: Result, name: str) -> None:
        """An exchange processes many sources at once; what each of them lost is counted separately."""
        counts = {"sources": {document.source: {name: result.metrics[name]}}}
        add_counts(self._run.states[self._node.id].metrics, counts)

    def forget(self) -> None:
        """Free the answers, once all parts have them."""
        self._answers.clear()


def _refuse_equal_numbers(documents: Sequence[DocumentPart]) -> None:
    """Records name their part by 64 bits; answers for two parts with the same number would be mixed up."""
    known: dict[int, DocumentPart] = {}
    for document in documents:
        other = known.setdefault(part_id(document.rows_hash), document)
        if other is not document:
            raise UserError(
                f"{other.label} and {document.label} have the same number ({part_id(document.rows_hash):x}) by "
                "chance, so an exchange would mix up their documents. Finished work is kept. Change part_bytes of "
                "a source by a byte and run again."
            )
