"""The tokenizer of a recipe and the texts of its sample, as they lie in the store."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.recipe.model import Recipe
from gristmill.recipe.sections.tokenizer import TEXT, TOKENIZER
from gristmill.store.parquet import PartReader


def open_for_tokenizer(recipe: Recipe) -> Mill:
    """A mill that goes as far as the recipe's tokenizer."""
    if not any(step.name == TOKENIZER for step in recipe.steps):
        raise UserError(
            f"{recipe.path} has no tokenizer, so there is none to make or to use. "
            "Add tokenizer: {train: {sample_bytes: {DOMAIN: 1GB}}}, with a size for each domain of its sources."
        )
    return Mill(recipe, TOKENIZER)


def tokenizer_file(view: CorpusView) -> str:
    """The tokenizer.json of a corpus: that of its run, or the one that the recipe names, which needs no run."""
    for node in view.nodes.values():
        if node.name == TOKENIZER and (made := view.states[node.id].model) is not None:
            return str(view.store.local_path(made))
        if node.name == TOKENIZER and isinstance(node, Node) and node.files:
            return next(iter(node.files))
    if view.record is not None:
        raise UserError(f"the tokenizer of {view.label} is not in {view.store.uri}. {view.to_finish}")
    raise UserError(
        f"the tokenizer of {view.label} is not in {view.store.uri}, or not for the recipe as it stands now. "
        f"Run: gristmill tokenizer train {view.label}{last_finished(view)}"
    )


def sample_texts(view: CorpusView, split: str) -> Iterator[tuple[str, pa.Array]]:
    """Domain and some texts at a time, of the documents that are `train` or `held_out`; none without a sample."""
    for domain, texts, _ in sample_by_language(view, split):
        yield domain, texts


def sample_by_language(view: CorpusView, split: str) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """The same with the language of each text, where its input states one."""
    for node in view.nodes.values():
        for _, (part, _) in sorted(view.states[node.id].layers.items()) if node.name == TEXT else ():
            reader = PartReader(view.store, part)
            for group in range(len(reader.groups)):
                table = reader.read_group(group, ("sampled", "domain", "language", "split"))
                table = table.filter(pc.equal(table["split"], split))
                for domain in sorted(pc.unique(table["domain"]).to_pylist()):
                    here = table.filter(pc.equal(table["domain"], domain))
                    yield domain, here["sampled"].combine_chunks(), here["language"].combine_chunks()
