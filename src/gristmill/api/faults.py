"""What goes wrong, as a user of Python expects it."""

from collections.abc import Iterator
from contextlib import contextmanager

from gristmill.errors import UserError
from gristmill.query.opening import damage_message
from gristmill.stopping import Interrupted
from gristmill.store.store import CorruptPart


@contextmanager
def as_python(name: str) -> Iterator[None]:
    """A damaged part is a UserError, as on the command line; a signal that stops a run is KeyboardInterrupt."""
    try:
        yield
    except CorruptPart as corrupt:
        raise UserError(damage_message(corrupt, name)) from None
    except Interrupted:
        raise KeyboardInterrupt from None
