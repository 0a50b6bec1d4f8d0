"""An exchange stage that kills its process on certain texts, when they are sent or when they are compared."""

import stagebox.deadly as deadly
from stagebox.exact import ONLY_KEPT, READS, RECORD_SCHEMA, SCHEMA  # noqa: F401
from stagebox.exact import emit as emit_exact
from stagebox.exact import reduce as reduce_exact

VERSION = 1


class Config(deadly.Config):
    when: str = "emit"
    """emit or reduce."""


def emit(batch, config):
    if config.when == "emit":
        deadly.apply(batch, config)
    return emit_exact(batch, config)


def reduce(records, config):
    if config.when == "reduce" and deadly.is_deadly(config):
        deadly.die(config.how)
    return reduce_exact(records, config)
