"""The tokenizer of a recipe and the texts of its sample, as they lie in the store."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.run_record import last_finished
from gristmill.engine.schedule.seen import Seen
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


def tokenizer_file(seen: Seen) -> str:
    """The tokenizer.json of a corpus: that of its run, or the one that the recipe names, which needs no run."""
    for node in seen.nodes.values():
        if node.name == TOKENIZER and (made := seen.made[node.id].model) is not None:
            return str(seen.store.local_path(made))
        if node.name == TOKENIZER and isinstance(node, Node) and node.files:
            return next(iter(node.files))
    if seen.record is not None:
        raise UserError(f"the tokenizer of {seen.told} is not in {seen.store.uri}. {seen.to_finish}")
    raise UserError(
        f"the tokenizer of {seen.told} is not in {seen.store.uri}, or not for the recipe as it stands now. "
        f"Run: gristmill tokenizer train {seen.told}{last_finished(seen)}"
    )


def sample_texts(seen: Seen, split: str) -> Iterator[tuple[str, pa.Array]]:
    """Domain and some texts at a time, of the documents that are `train` or `held_out`; none without a sample."""
    for domain, texts, _ in sample_by_language(seen, split):
        yield domain, texts


def sample_by_language(seen: Seen, split: str) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """The same with the language of each text, where its input states one."""
    for node in seen.nodes.values():
        for _, (part, _) in sorted(seen.made[node.id].layers.items()) if node.name == TEXT else ():
            reader = PartReader(seen.store, part)
            for group in range(len(reader.groups)):
                table = reader.read_group(group, ("sampled", "domain", "language", "split"))
                table = table.filter(pc.equal(table["split"], split))
                for domain in sorted(pc.unique(table["domain"]).to_pylist()):
                    here = table.filter(pc.equal(table["domain"], domain))
                    yield domain, here["sampled"].combine_chunks(), here["language"].combine_chunks()
