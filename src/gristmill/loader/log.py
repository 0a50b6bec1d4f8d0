"""What the loader tells a trainer's log. File names in a manifest are data, so they are made printable here."""

import logging

from gristmill.printable import one_line

_LOG = logging.getLogger("gristmill.loader")


def warn(message: str) -> None:
    _LOG.warning("%s", one_line(message))
