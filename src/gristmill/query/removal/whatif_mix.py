"""What if the mixture had other settings? Computed from the shard catalogue, with the code of the step mix."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.engine.mill import Mill
from gristmill.engine.publish.folder import read_model
from gristmill.engine.schedule.run import Run
from gristmill.engine.work.rows import model_paths
from gristmill.errors import UserError
from gristmill.query.removal.changes import Change
from gristmill.recipe.sections.mix import MIX
from gristmill.stages.mix import mix


@dataclass(frozen=True)
class Mixture:
    """A mixture with other settings."""

    changes: Mapping[str, tuple[Any, Any]]
    """Field -> (now, then)."""
    now: Mapping[str, Any] | None
    """The current manifest; None if the step mix has not run."""
    then: Mapping[str, Any]
    """The new manifest, exact to the byte."""
    warnings: Sequence[str]


def remixed(mill: Mill, run: Run, change: Change) -> Mixture:
    """The mixture after a change. Raises UserError if there are no shards or the change is invalid."""
    config = change.config
    assert isinstance(config, mix.Config)
    models = run.models(change.node)
    if missing := [name for name in change.node.models if name not in models]:
        raise UserError(
            f"There is no {' and no '.join(missing)} for the current recipe, so there is nothing to mix. "
            f"{run.to_finish}"
        )
    known = {domain for domain in config.sources.values() if domain is not None}
    for domains in (config.domains, *(phase.domains for phase in config.phases)):
        if isinstance(domains, dict) and domains.keys() != known:
            raise UserError(
                f"domains lists {', '.join(domains)}, but the sources have {', '.join(sorted(known))}, so nothing "
                "was computed. Give each domain of the sources a ratio; 0 excludes it."
            )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        found = mix.make(config, path, **model_paths(models, mill.store))
        then = json.loads(path.read_bytes())
    return Mixture(change.fields, read_model(run, MIX), then, mix.warnings(found, config))
