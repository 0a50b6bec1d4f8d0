"""The tokenizer of a recipe and the texts of its sample, as they lie in the store."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.graph import Node
from gristmill.engine.mill import Mill
from gristmill.engine.run import Run
from gristmill.errors import UserError
from gristmill.recipe.model import Recipe
from gristmill.recipe.tokenizer import TEXT, TOKENIZER
from gristmill.store.parquet import PartReader


def open_for_tokenizer(recipe: Recipe) -> Mill:
    """A mill that goes as far as the recipe's tokenizer."""
    if not any(step.name == TOKENIZER for step in recipe.steps):
        raise UserError(
            f"{recipe.path} has no tokenizer, so there is none to make or to use. "
            "Add tokenizer: {train: {sample_bytes: {DOMAIN: 1GB}}}, with a size for each domain of its sources."
        )
    return Mill(recipe, TOKENIZER)


def tokenizer_path(mill: Mill, run: Run) -> Path:
    """The tokenizer.json of a recipe that ran."""
    made = run.made[_node(mill, TOKENIZER).id].layers
    if not made:
        raise UserError(
            f"the tokenizer of {mill.recipe.path} is not in {mill.store.uri}, or not for the recipe as it stands now. "
            f"Run: gristmill tokenizer train {mill.recipe.path}"
        )
    part, _ = made["", (0, 0)]
    return mill.store.local_path(part)


def sample_texts(mill: Mill, run: Run, split: str) -> Iterator[tuple[str, pa.Array]]:
    """Domain and some texts at a time, of the documents that are `train` or `held_out`; none without a sample."""
    for domain, texts, _ in sample_by_language(mill, run, split):
        yield domain, texts


def sample_by_language(mill: Mill, run: Run, split: str) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """The same with the language of each text, where its input states one."""
    nodes = [node for node in mill.graph.nodes.values() if node.name == TEXT]
    for node in nodes:
        for _, (part, _) in sorted(run.made[node.id].layers.items()):
            reader = PartReader(mill.store, part)
            for group in range(len(reader.groups)):
                table = reader.read_group(group, ("sampled", "domain", "language", "split"))
                table = table.filter(pc.equal(table["split"], split))
                for domain in sorted(pc.unique(table["domain"]).to_pylist()):
                    here = table.filter(pc.equal(table["domain"], domain))
                    yield domain, here["sampled"].combine_chunks(), here["language"].combine_chunks()


def _node(mill: Mill, name: str) -> Node:
    return next(node for node in mill.graph.nodes.values() if node.name == name)
