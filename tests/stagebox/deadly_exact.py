"""An exchange stage that kills its process on certain texts, when they are sent or when they are compared."""

from dataclasses import replace

import stagebox.deadly as deadly
import stagebox.exact as exact


class Config(deadly.Config):
    when: str = "emit"
    """emit or reduce."""


def emit(batch, config):
    if config.when == "emit":
        deadly.apply(batch, config)
    return exact.STAGE.emit(batch, config)


def reduce(records, config):
    if config.when == "reduce" and deadly.is_deadly(config):
        deadly.die(config.how)
    return exact.STAGE.reduce(records, config)


STAGE = replace(exact.STAGE, config=Config, emit=emit, reduce=reduce)
