"""A corpus in Python: a recipe as it is now, or what a run of it made.

    import gristmill
    corpus = gristmill.open("recipes/demo.yaml")
    corpus.run(workers=2)
    corpus.funnel()

Whatever a user can mend is a `gristmill.UserError` with the message that the command line has for it.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from gristmill.api.documents import Documents
from gristmill.api.faults import as_python
from gristmill.api.finished import Finished, ProgressListener
from gristmill.api.pages import make_page
from gristmill.api.tables import Table
from gristmill.counted import counted, size
from gristmill.engine.asked import check_executor, refuse_warnings
from gristmill.engine.mill import Mill, find_warnings
from gristmill.engine.publish.input_changes import input_changes
from gristmill.engine.publish.run_record import describe, last_finished, see
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.task_cache import LOG
from gristmill.engine.work.memory import available_cores
from gristmill.errors import UserError
from gristmill.log import WARNING
from gristmill.query import opening
from gristmill.query.documents.columns import ColumnReader, columns_of
from gristmill.query.documents.sql import Session
from gristmill.query.export.dataset_card import Exported
from gristmill.query.export.export import FILE_BYTES, export
from gristmill.query.lineage.lives import lives_of
from gristmill.query.removal.funnel import funnel_lines, funnels
from gristmill.query.sizing.plan import make_plan
from gristmill.report.markup import escaped
from gristmill.store.store import Store


def open_corpus(
    path: str | os.PathLike[str], version: str | None = None, *, store: str | None = None, sample: str | None = None
) -> "Corpus":
    """A corpus by its recipe's file, or by STORE@NAME.

    `version` is a tag or the hash of a run in the recipe's store: then it is what that run made, and not
    the recipe as it is now. `store` and `sample` go before those of the recipe.
    """
    name = os.fspath(path)
    if opening.is_run(name):
        if version is not None:
            raise UserError(f"{name} names a run, and so does version={version}. Leave one of them out.")
        run = opening.open_run(name, store, sample)
        return Corpus(name, run.name, run.store.uri, run)
    opening.refuse_folder(name, store, sample)
    recipe = opening.open_mill(name, store, sample=sample).recipe
    view = None if version is None else see(Store(recipe.store), version)
    if view is not None and view.name != recipe.name:
        raise UserError(
            f"{view.label} is of the recipe {view.name}, and {name} is {recipe.name}, so it is no version of it. "
            f"To look at it all the same: gristmill.open({view.label!r})"
        )
    return Corpus(name if view is None else view.label, recipe.name, recipe.store, view, (store, sample))


class Corpus:
    """A recipe as its file and its store are when something is asked of it, or what a run made."""

    def __init__(
        self,
        label: str,
        name: str,
        store: str,
        view: CorpusView | None = None,
        options: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self._label, self._view, self._options = label, view, options
        self.name = name
        """The recipe's."""
        self.store = store
        """Where it lies: a folder or a URI."""

    @property
    def version(self) -> str | None:
        """The hash of the run that is looked at; None where it is the recipe as it is now."""
        record = None if self._view is None else self._view.record
        return None if record is None else record["version"]

    @property
    def columns(self) -> list[str]:
        """All that `documents` can be asked for."""
        with as_python(self._label):
            return columns_of(self._view_now())

    def run(
        self,
        workers: int | None = None,
        tag: str | None = None,
        *,
        until: str | None = None,
        executor: str | None = None,
        address: str | None = None,
        profile: str | None = None,
        retry_crashed: bool = False,
        progress: Callable[[str], object] | None = None,
    ) -> Finished:
        """Run what is not in the store. What happens goes to the logger `gristmill.run`, and to `progress`: `print`.

        Works in a notebook, in a thread, and in a script without a guard around it.
        """
        with as_python(self._label):
            check_executor(executor, address, profile)
            if workers is not None and workers < 1:
                raise UserError(f"workers={workers}: a run needs one at least, so nothing was run.")
            mill = self._open(until, executor, address, profile)
            if tag is not None:
                mill.check_tag(tag)
            listener = ProgressListener(progress)
            run = mill.run(workers, listener, retry_crashed, tag)
            warnings = find_warnings(run)
            for warning in warnings:
                LOG(warning, WARNING)
            refuse_warnings(mill.recipe, warnings)
            return Finished(run, tag, listener.notes, warnings)

    def plan(self) -> "Plan":
        """What a run would do, and why."""
        with as_python(self._label):
            mill = self._open()
            run = opening.dry_run_with_inputs(mill, previews=True)
            return Plan(mill, make_plan(mill, run), input_changes(run, mill.newest_whole()))

    def funnel(self) -> "Funnel":
        """What came in, what each step took, what is left."""
        with as_python(self._label):
            return Funnel(self._view_now())

    def documents(
        self,
        kept: bool | None = True,
        columns: Sequence[str] | None = None,
        sources: Sequence[str] = (),
        reasons: Sequence[str] = (),
    ) -> Documents:
        """Documents of the corpus; with `kept=False` those that were dropped, with None both. `reasons` picks those
        that were dropped for one of them, and records that could not be read for one of them.

        Columns are those of `columns`: of the documents (`doc_id`, `url`, `title`, ...), `text` as the last step left
        it, the verdict (`kept`, `step`, `reason`), and `STEP.column` of any step.
        """
        if any(isinstance(names, str) for names in (columns, sources, reasons)):
            raise UserError(
                "columns, sources and reasons are lists of names, so nothing was read. Write columns=['text']."
            )
        with as_python(self._label):
            view = self._view_now()
            opening.check_finished(view)
            return Documents(ColumnReader(view, columns, kept, sources, reasons))

    def sql(self, query: str) -> pa.Table:
        """The answer to a query in DuckDB's SQL (extra `sql`)."""
        with as_python(self._label), closing(Session(self._view_now())) as session:
            schema, batches = session.ask(query)
            return pa.Table.from_batches(batches, schema)

    def lineage(
        self,
        what: str | None = None,
        *,
        text: str | None = None,
        sample: int | None = None,
        token: int | None = None,
        prove: bool = False,
    ) -> "Lives":
        """The lives of the documents that are meant: by an id or how it begins, a URL, the SHA-256 of a text or quoted
        words (`what`); by a text; or by a token of a sample of the training. With `prove` each is made again from the
        bytes that it was read from, and compared. None is meant by what nobody has: then it is empty.
        """
        with as_python(self._label):
            view = self._view_now()
            notes: list[str] = []
            found = [one.about for one in lives_of(view, what, text, sample, token, prove, notes.append)]
            return Lives(view, found, notes)

    def export(
        self,
        out: str | os.PathLike[str],
        format: str = "parquet",
        columns: Sequence[str] | None = None,
        file_bytes: int = FILE_BYTES,
        workers: int | None = None,
    ) -> Exported:
        """Write the kept documents as a dataset that others can load."""
        with as_python(self._label):
            return export(self._view_now(), os.fspath(out), format, columns, file_bytes, workers or available_cores())

    def page(self, name: str) -> str:
        """A report page as HTML: `funnel`, or one that an installed package adds (docs/plugins.md)."""
        with as_python(self._label):
            return make_page(name, self)

    def _view_now(self) -> CorpusView:
        return self._view if self._view is not None else opening.dry_run(self._open())

    def _open(
        self,
        until: str | None = None,
        executor: str | None = None,
        address: str | None = None,
        profile: str | None = None,
    ) -> Mill:
        """The recipe; UserError where a run was opened in its place."""
        store, sample = self._options if self._view is None else (None, None)
        return opening.open_mill(self._label, store, until, executor, address, profile, sample)

    def __repr__(self) -> str:
        return f"<Corpus {self._label}>"

    def _repr_html_(self) -> str:
        view = self._view_now()
        found = funnels(view)
        kept = sum(funnel["kept"]["rows"] for funnel in found.values())
        text = sum(funnel["kept"]["text_bytes"] for funnel in found.values())
        label = describe(view) if view.record is not None else f"{view.label}: recipe {view.name}, in {view.store.uri}"
        open_steps = view.unfinished()
        what = f"{counted(kept, 'document')} kept, {size(text)} of text, of {counted(len(view.chains), 'source')}"
        left = (
            f"{counted(len(open_steps), 'step')} not run as the recipe is now. {view.to_finish}" if open_steps else ""
        )
        lines = (label, what if found else "", left)
        return "".join(f"<p>{escaped(line)}</p>" for line in lines if line)


class Lives(Table):
    """One line a step of each document: its verdict, and the bytes of its text before and after. Each life as a whole,
    with all its facts, is in `lives`.
    """

    def __init__(self, view: CorpusView, lives: Sequence[dict[str, Any]], notes: Sequence[str]) -> None:
        self.lives = list(lives)
        rows = [
            {
                "document": life["doc_id"],
                "step": step["step"],
                "verdict": step["reason"] or "",
                "detail": step["detail"] or "",
                "bytes_before": step["bytes_before"],
                "bytes_after": step["bytes_after"],
            }
            for life in self.lives
            for step in life["steps"]
        ]
        super().__init__(rows, list(notes))
        self.title = view.label


class Plan(Table):
    """One line a step: tasks that are in the store, that would run, that wait for others, and why."""

    def __init__(self, mill: Mill, lines: Sequence[Any], changes: Iterable[str]) -> None:
        rows = [
            {
                "step": line.id,
                "cached": line.cached,
                "to_run": line.to_run,
                "waiting": line.waiting,
                "why": "; ".join(line.why),
            }
            for line in lines
        ]
        self.is_done = not any(line.to_run or line.waiting for line in lines)
        """Whether everything is in the store."""
        super().__init__(rows, [*(["Nothing to do: everything is in the store."] if self.is_done else []), *changes])
        self.title = f"{mill.recipe.path}, store {mill.store.uri}"


class Funnel(Table):
    """One line for what was read of a source, for every reason of every step, and for what is kept; in documents, bytes
    of text, and bytes as they were read of what had no text.
    """

    def __init__(self, view: CorpusView) -> None:
        self.sources = funnels(view)
        """The same as nested dictionaries, by source."""
        if not self.sources:
            raise UserError(
                f"Nothing of {view.label} has come to its end as it is now, so there is nothing to count. "
                f"{view.to_finish}{last_finished(view, 'funnel')}"
            )
        waiting = view.unfinished()
        notes = [f"Not counted, or not in full, because not run as the recipe is now: {', '.join(waiting)}."]
        super().__init__(list(funnel_lines(self.sources)), notes if waiting else [])
        self.title = view.label
