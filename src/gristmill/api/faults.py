"""Translate internal exceptions to those that a Python user expects."""

from collections.abc import Iterator
from contextlib import contextmanager

from gristmill.errors import UserError
from gristmill.query.opening import damage_message
from gristmill.stopping import Interrupted
from gristmill.store.store import CorruptPart


@contextmanager
def as_python(name: str) -> Iterator[None]:
    """Raise UserError for a damaged part, and KeyboardInterrupt for a signal that stops a run."""
    try:
        yield
    except CorruptPart as corrupt:
        raise UserError(damage_message(corrupt, name)) from None
    except Interrupted:
        raise KeyboardInterrupt from None
