"""Refuses a mixture with more generated text than the recipe allows.

`max_generated` limits the share of generated tokens. `max_family_epochs` limits how often training sees a parent, on
average: itself, and each document that was generated from it, as often as they are drawn.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from gristmill.errors import CannotBeMet
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions
from gristmill.stages.mix.plan import Planned, tokens_of


def refuse_generated(
    groups: Iterable[MixGroup],
    planned: Iterable[Planned],
    options: MixOptions,
    parents: Mapping[str, tuple[str, ...]],
    drawn: Mapping[str, int],
) -> None:
    """Raise CannotBeMet if a cap is exceeded; `parents` has those of each generated source."""
    by_name = {group.name: group for group in groups}
    taken = {name: drawn.get(name, 0) for name in by_name}
    for phase in planned:
        for name, count in phase.weights.items():
            taken[name] += count
    tokens: dict[str, int] = {}
    draws: dict[str, Fraction] = {}
    documents: dict[str, int] = {}
    for name, group in by_name.items():
        tokens[group.source] = tokens.get(group.source, 0) + tokens_of(group, taken[name])
        share = Fraction(taken[name], group.samples) * group.documents
        draws[group.source] = draws.get(group.source, Fraction(0)) + share
        documents[group.source] = documents.get(group.source, 0) + group.documents
    made = sum(tokens.get(source, 0) for source in parents)
    whole = sum(tokens.values())
    if options.max_generated is not None and made > exact(options.max_generated) * whole:
        raise CannotBeMet(
            f"mix: {made / whole:.1%} of its tokens are generated ({', '.join(parents)}), but max_generated is "
            f"{options.max_generated:.1%}. Lower the ratios of their domains, or raise max_generated."
        )
    if options.max_family_epochs is None:
        return
    for family in sorted(set(parents.values())):
        children = [source for source, its in parents.items() if its == family]
        held = sum(documents.get(source, 0) for source in family)
        seen = sum((draws.get(source, Fraction(0)) for source in (*family, *children)), Fraction(0))
        if held and seen > exact(options.max_family_epochs) * held:
            raise CannotBeMet(
                f"mix: a document of {', '.join(family)} is seen {float(seen / held):.1f} times on average, counting "
                f"what was generated from it ({', '.join(children)}), but max_family_epochs is "
                f"{options.max_family_epochs:g}. Lower mix.tokens or the ratios of these domains, or raise "
                "max_family_epochs."
            )
