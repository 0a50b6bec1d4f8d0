"""The tokenizer of a recipe and the texts of its training sample, from the store."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.recipe.model import Recipe
from gristmill.recipe.sections.tokenizer import NAMES, TEXT, TOKENIZER
from gristmill.store.parquet import PartReader


def open_for_tokenizer(recipe: Recipe) -> Mill:
    """A mill that runs up to the recipe's tokenizer."""
    if not any(step.name == TOKENIZER for step in recipe.steps):
        raise UserError(
            f"{recipe.path} has no tokenizer section, so there is no tokenizer to train or use. "
            "Add tokenizer: {train: {sample_bytes: {DOMAIN: 1GB}}}, with a size for each domain of its sources."
        )
    return Mill(recipe, NAMES if any(step.name == NAMES for step in recipe.steps) else TOKENIZER)


def tokenizer_file(view: CorpusView) -> str:
    """The tokenizer.json of a corpus: from its run, or the file that the recipe names, which needs no run."""
    last = NAMES if view.named(NAMES) else TOKENIZER
    if (part := view.model(last)) is not None:
        return str(view.store.local_path(part))
    for node in view.named(last):
        if isinstance(node, Node) and node.files:
            return next(iter(node.files))
    if view.record is not None:
        raise UserError(f"The tokenizer of {view.label} is not in {view.store.uri}. {view.to_finish}")
    raise UserError(
        f"The store {view.store.uri} has no tokenizer for the current recipe {view.label}. "
        f"Run: gristmill tokenizer train {view.label}{last_finished(view)}"
    )


def sample_texts(view: CorpusView, split: str) -> Iterator[tuple[str, pa.Array]]:
    """Batches of (domain, texts) of the `train` or `held_out` documents; empty without a sample."""
    for domain, texts, _ in sample_by_language(view, split):
        yield domain, texts


def sample_by_language(view: CorpusView, split: str) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """The same with the language of each text if its input states one."""
    for node in view.nodes.values():
        for _, (part, _) in sorted(view.states[node.id].layers.items()) if node.name == TEXT else ():
            reader = PartReader(view.store, part)
            for group in range(len(reader.groups)):
                table = reader.read_group(group, ("sampled", "domain", "language", "split"))
                table = table.filter(pc.equal(table["split"], split))
                for domain in sorted(pc.unique(table["domain"]).to_pylist()):
                    here = table.filter(pc.equal(table["domain"], domain))
                    yield domain, here["sampled"].combine_chunks(), here["language"].combine_chunks()
