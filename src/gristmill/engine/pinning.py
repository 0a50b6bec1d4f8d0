"""The tokenizer that a recipe trained last, and what training it again would cost."""

from gristmill.engine.graph import Node
from gristmill.engine.mill import Mill
from gristmill.engine.plan import known_before
from gristmill.engine.run import Run
from gristmill.engine.task import result_from_json
from gristmill.recipe.shards import TOKENS
from gristmill.recipe.tokenizer import TOKENIZER
from gristmill.stages.tokenizer import tokenizer, tokenizer_pin
from gristmill.store.store import Part


def trained_node(mill: Mill) -> Node | None:
    """The step that trains the recipe's tokenizer, if one does."""
    found = (node for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    return next((node for node in found if node.module == tokenizer.__name__), None)


def pinned_node(mill: Mill) -> Node | None:
    """The step that takes the tokenizer that the recipe pins, if it pins one."""
    found = (node for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    return next((node for node in found if node.module == tokenizer_pin.__name__), None)


def last_trained(mill: Mill, node: Node) -> Part | None:
    """What the step made in its last run, whatever has changed in the recipe since."""
    for key in known_before(mill).get(node.id, {}).get("tasks", ()):
        record = mill.store.read_json(f"tasks/{key}.json")
        if record is not None:
            return result_from_json(record).parts[0]
    return None


def retraining(mill: Mill, run: Run) -> str | None:
    """What a plan says when an edit elsewhere in the recipe costs the tokenizer, and with it all that was encoded."""
    node = trained_node(mill)
    before = known_before(mill)
    if node is None or node.id not in before or before[node.id]["identity"] != node.identity:
        return None
    if not (run.made[node.id].missing or run.made[node.id].waiting) or last_trained(mill, node) is None:
        return None
    told = [earlier for node_id, earlier in before.items() if node_id.endswith(f"/{TOKENS}")]
    documents = sum(earlier["metrics"].get("documents", 0) for earlier in told)
    again = f", and all {documents:,} documents encoded again" if documents else ""
    return (
        f"The tokenizer would be trained again{again}: `gristmill tokenizer pin {mill.recipe.path}` keeps the one "
        "that you have."
    )
