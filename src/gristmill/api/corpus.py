"""A corpus in Python: the current recipe, or the result of one of its runs.

    import gristmill
    corpus = gristmill.open("recipes/demo.yaml")
    corpus.run(workers=2)
    corpus.funnel()

Every mistake that a user can fix raises `gristmill.UserError`, with the same message as the command line.
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
from gristmill.engine.mill import Mill
from gristmill.engine.publish.input_changes import input_changes
from gristmill.engine.publish.observers import make_observers
from gristmill.engine.publish.run_record import describe, last_finished, see
from gristmill.engine.run_options import check_executor, sort_warnings
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
from gristmill.query.watch import Comparison, make_watch, open_against, watch_now
from gristmill.report.corpus.report import make_report
from gristmill.report.markup import escaped
from gristmill.store.store import Store


def open_corpus(
    path: str | os.PathLike[str], version: str | None = None, *, store: str | None = None, sample: str | None = None
) -> "Corpus":
    """Open a corpus by its recipe file, or by STORE@NAME.

    `version` is a tag or the hash of a run in the recipe's store; it opens the result of that run instead of the
    current recipe. `store` and `sample` override those of the recipe.
    """
    name = os.fspath(path)
    if opening.is_run(name):
        if version is not None:
            raise UserError(f"{name} already names a run, so version={version} is ambiguous. Leave one of them out.")
        run = opening.open_run(name, store, sample)
        return Corpus(name, run.name, run.store.uri, run)
    opening.refuse_folder(name, store, sample)
    recipe = opening.open_mill(name, store, sample=sample).recipe
    view = None if version is None else see(Store(recipe.store), version)
    if view is not None and view.name != recipe.name:
        raise UserError(
            f"{view.label} belongs to the recipe {view.name}, but {name} is the recipe {recipe.name}. "
            f"To open it anyway: gristmill.open({view.label!r})"
        )
    return Corpus(name if view is None else view.label, recipe.name, recipe.store, view, (store, sample))


class Corpus:
    """The current recipe, read again for every call, or the result of one run."""

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
        """The name of the recipe."""
        self.store = store
        """The store: a folder or a URI."""

    @property
    def version(self) -> str | None:
        """The hash of the run; None for the current recipe."""
        record = None if self._view is None else self._view.record
        return None if record is None else record["version"]

    @property
    def columns(self) -> list[str]:
        """All columns that `documents` can return."""
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
        progress: Callable[[str], object] | None = None,
    ) -> Finished:
        """Run every task whose result is not in the store.

        Messages go to the logger `gristmill.run` and to `progress`, for example `print`. It works in a notebook, in a
        thread, and in a script without an `if __name__ == "__main__"` guard.
        """
        with as_python(self._label):
            check_executor(executor, address, profile)
            if workers is not None and workers < 1:
                raise UserError(f"workers={workers}: a run needs at least one worker, so nothing was run.")
            mill = self._open(until, executor, address, profile)
            if tag is not None:
                mill.check_tag(tag)
            mill.watch = make_watch(mill)
            listener = ProgressListener(progress)
            run = mill.run(workers, listener, tag, make_observers())
            warnings = sort_warnings(run)
            for warning in (*warnings.new, *warnings.known):
                LOG(warning, WARNING)
            warnings.refuse(mill.recipe)
            return Finished(run, tag, listener.notes, [*warnings.new, *warnings.known])

    def plan(self) -> "Plan":
        """Return what a run would do, and why."""
        with as_python(self._label):
            mill = self._open()
            known = mill.check_takedowns()
            run = opening.dry_run_with_inputs(mill, previews=True)
            return Plan(mill, make_plan(mill, run), [*input_changes(run, mill.newest_whole()), *known])

    def funnel(self) -> "Funnel":
        """Count what was read, what each step dropped or cut, and what is kept."""
        with as_python(self._label):
            return Funnel(self._view_now())

    def documents(
        self,
        kept: bool | None = True,
        columns: Sequence[str] | None = None,
        sources: Sequence[str] = (),
        reasons: Sequence[str] = (),
    ) -> Documents:
        """Return documents of the corpus: kept ones, dropped ones with `kept=False`, or all with `kept=None`.

        `reasons` selects documents that were dropped, and records that could not be read, for one of these reasons.
        `columns` lists columns of the documents (`doc_id`, `url`, `title`, ...), the final `text`, the verdict (`kept`,
        `step`, `reason`), and `STEP.column` of any step; the property `columns` has all names.
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
        """Run a DuckDB SQL query (needs the extra `sql`)."""
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
        """Return the lineage of the matching documents; empty if no document matches.

        `what` is a document id or its first digits, a URL, the SHA-256 of a text, or quoted words. Instead of it,
        `text` gives a whole text, or `sample` and `token` name a token of the training order. With `prove`, each
        document is made again from its input bytes and compared.
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
        """Write the kept documents as a dataset that other tools can load."""
        with as_python(self._label):
            return export(self._view_now(), os.fspath(out), format, columns, file_bytes, workers or available_cores())

    def page(self, name: str) -> str:
        """Return a report page of an installed package as HTML (docs/plugins.md)."""
        with as_python(self._label):
            return make_page(name, self)

    def report(self, *, against: str | None = None) -> str:
        """The report as HTML, beside another version where `against` names one."""
        with as_python(self._label):
            other = None if against is None else open_against(Store(self.store), against)
            return make_report(self._view_now(), other)

    def watch(self, against: str | None = None) -> Comparison:
        """Compare with another version; by default the one that the recipe watches (docs/watch.md)."""
        with as_python(self._label):
            settings = None if self._view is not None else self._open().recipe.watch
            return watch_now(self._view_now(), against, settings)

    def _view_now(self) -> CorpusView:
        return self._view if self._view is not None else opening.dry_run(self._open())

    def _open(
        self,
        until: str | None = None,
        executor: str | None = None,
        address: str | None = None,
        profile: str | None = None,
    ) -> Mill:
        """The recipe. Raises UserError if this corpus is the result of a run."""
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
        what = f"{counted(kept, 'document')} kept, {size(text)} of text, from {counted(len(view.chains), 'source')}"
        left = (
            f"{counted(len(open_steps), 'step')} not run for the current recipe. {view.to_finish}" if open_steps else ""
        )
        lines = (label, what if found else "", left)
        return "".join(f"<p>{escaped(line)}</p>" for line in lines if line)


class Lives(Table):
    """One row for each step of each document: the verdict, and the text size before and after the step.

    `lives` has the full lineage of each document.
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
    """One row per step: how many tasks are cached, would run, or wait for other tasks, and why."""

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
        """Whether every result is in the store."""
        super().__init__(rows, [*(["Nothing to do: everything is in the store."] if self.is_done else []), *changes])
        self.title = f"{mill.recipe.path}, store {mill.store.uri}"


class Funnel(Table):
    """One row for what was read from a source, for every reason of every step, and for what is kept.

    Counts are in documents, bytes of text, and raw bytes of records that had no text.
    """

    def __init__(self, view: CorpusView) -> None:
        self.sources = funnels(view)
        """The same as nested dictionaries, by source."""
        if not self.sources:
            raise UserError(
                f"No source of {view.label} is finished for the current recipe, so there is nothing to count. "
                f"{view.to_finish}{last_finished(view, 'funnel')}"
            )
        waiting = view.unfinished()
        notes = [f"Counts are missing or partial, because these steps have not finished: {', '.join(waiting)}."]
        super().__init__(list(funnel_lines(self.sources)), notes if waiting else [])
        self.title = view.label
