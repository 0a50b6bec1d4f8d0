"""What a user should know before they publish shards, in one line each."""

from collections import Counter

from gristmill.counted import percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import GROUPS

GUARDS = {
    "decontaminate": "benchmarks may be in the text",
    "scrub": "personal data and secrets may be in the text",
}
"""Steps that a published corpus should have, and what is unknown without them."""


def unguarded(view: CorpusView) -> str | None:
    """The steps that some source of a corpus with shards lacks."""
    if not view.named(GROUPS):
        return None
    lacks = []
    for step, risk in GUARDS.items():
        without = [name for name, chain in view.chains.items() if step not in {view.nodes[one].name for one in chain}]
        if without:
            whose = "" if len(without) == len(view.chains) else f", sources {listed(without, 5)}"
            lacks.append(f"{step} ({risk}{whose})")
    return f"Published without {' and without '.join(lacks)}." if lacks else None


def unweighted(view: CorpusView) -> str | None:
    """What a mixture without weights draws of each domain."""
    # Imported here, since a report needs no kernel.
    from gristmill.engine.plan.graph import Node
    from gristmill.recipe.sections.mix import MIX
    from gristmill.stages.mix import mix
    from gristmill.stages.mix.options import MixOptions, MixPhase

    config = next((node.config for node in view.named(MIX) if isinstance(node, Node)), None)
    if not isinstance(config, mix.Config) or len(set(config.sources.values())) < 2:
        return None
    parts: list[MixOptions | MixPhase] = [config, *config.phases]
    for one in parts:
        if isinstance(one.domains, dict) or one.temperature or one.tiers or one.upsample:
            return None
    tokens: Counter[str] = Counter({domain or "no domain": 0 for domain in config.sources.values()})
    for source, _, number in view.token_groups():
        tokens[config.sources[source] or "no domain"] += number
    total = tokens.total()
    shares = listed((f"{name} {percent(count, total)}" for name, count in tokens.most_common()), 10)
    known = f": {shares}" if total else " (the run counts them)"
    example = ", ".join(f"{name}: {1 / len(tokens):.2g}" for name in tokens)
    return (
        f"mix has no weights, so each domain is drawn in proportion to its tokens{known}. The largest decides what a "
        f"model learns. To weigh: mix: {{domains: {{{example}}}}}"
    )
