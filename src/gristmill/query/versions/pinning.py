"""The last tokenizer that a recipe trained, and the cost of a new one."""

from gristmill.counted import counted
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import Node
from gristmill.engine.publish.run_record import task_names
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.task import result_from_json
from gristmill.recipe.sections.shards import TOKENS
from gristmill.recipe.sections.tokenizer import TOKENIZER
from gristmill.stages.tokenizer import tokenizer, tokenizer_pin
from gristmill.store.store import Part


def trained_node(mill: Mill) -> Node | None:
    """The step that trains the recipe's tokenizer, if one does."""
    found = (node for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    return next((node for node in found if node.module == tokenizer.__name__), None)


def pinned_node(mill: Mill) -> Node | None:
    """The step for the pinned tokenizer of the recipe, if there is one."""
    found = (node for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    return next((node for node in found if node.module == tokenizer_pin.__name__), None)


def last_trained(mill: Mill, node: Node) -> Part | None:
    """The result of the step in its last run, even if the recipe has changed since."""
    before = mill.known_before().get(node.id)
    for key in task_names(mill.store, before) if before else ():
        record = mill.store.read_json(f"tasks/{key}.json")
        if record is not None:
            return result_from_json(record).parts[0]
    return None


def tokenizer_hint(mill: Mill, run: Run) -> str | None:
    """The message of a plan if the tokenizer changes: whether documents have to be encoded again."""
    node = next((node for node in mill.graph.nodes.values() if node.name == TOKENIZER), None)
    before = mill.known_before()
    if node is None or node.id not in before or not (run.states[node.id].missing or run.states[node.id].waiting):
        return None
    last = last_trained(mill, node)
    if last is None:
        return None
    encoded = [earlier for node_id, earlier in before.items() if node_id.endswith(f"/{TOKENS}")]
    documents = sum(earlier["metrics"].get("documents", 0) for earlier in encoded)
    if named := [part for file in node.files.values() for _, _, part in file.files]:
        if named[0].hash == last.hash:
            return (
                f"The tokenizer in the recipe is that of the last run ({last.hash[:12]}): it is not trained again, and "
                "only documents that changed since are encoded."
            )
        return (
            f"The tokenizer in the recipe ({named[0].hash[:12]}) differs from that of the last run "
            f"({last.hash[:12]}), so all documents{f' ({documents:,} in the last run)' if documents else ''} are "
            "encoded again."
        )
    if before[node.id]["identity"] != node.identity:
        return None  # the settings changed, and `why` says so
    again = f", and all {counted(documents, 'document')} encoded again" if documents else ""
    return (
        f"The tokenizer would be trained again{again}. To keep the current one: "
        f"`gristmill tokenizer pin {mill.recipe.path}`."
    )
