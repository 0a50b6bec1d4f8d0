"""The tokenizer that a recipe trained last, and what another one would cost."""

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
    """The step that takes the tokenizer that the recipe pins, if it pins one."""
    found = (node for node in mill.graph.nodes.values() if node.name == TOKENIZER)
    return next((node for node in found if node.module == tokenizer_pin.__name__), None)


def last_trained(mill: Mill, node: Node) -> Part | None:
    """What the step made in its last run, whatever has changed in the recipe since."""
    before = mill.known_before().get(node.id)
    for key in task_names(mill.store, before) if before else ():
        record = mill.store.read_json(f"tasks/{key}.json")
        if record is not None:
            return result_from_json(record).parts[0]
    return None


def tokenizer_hint(mill: Mill, run: Run) -> str | None:
    """What a plan says where the tokenizer is made or taken anew: what becomes of all that was encoded."""
    node = next((node for node in mill.graph.nodes.values() if node.name == TOKENIZER), None)
    before = mill.known_before()
    if node is None or node.id not in before or not (run.states[node.id].missing or run.states[node.id].waiting):
        return None
    last = last_trained(mill, node)
    if last is None:
        return None
    told = [earlier for node_id, earlier in before.items() if node_id.endswith(f"/{TOKENS}")]
    documents = sum(earlier["metrics"].get("documents", 0) for earlier in told)
    if named := [part for file in node.files.values() for _, _, part in file.files]:
        if named[0].hash == last.hash:
            return (
                f"The tokenizer that the recipe names is that of the last run ({last.hash[:12]}): none is trained, "
                "what was encoded with it stays, and only documents that changed since are encoded."
            )
        return (
            f"The tokenizer that the recipe names ({named[0].hash[:12]}) is another than that of the last run "
            f"({last.hash[:12]}): all documents{f', {documents:,} in the last run,' if documents else ''} are encoded "
            "again."
        )
    if before[node.id]["identity"] != node.identity:
        return None  # another vocabulary is asked for, and `why` says so
    again = f", and all {counted(documents, 'document')} encoded again" if documents else ""
    return (
        f"The tokenizer would be trained again{again}: `gristmill tokenizer pin {mill.recipe.path}` keeps the one "
        "that you have."
    )
