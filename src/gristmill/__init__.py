"""Gristmill: raw crawls, code and licensed text in; a clean corpus out, reproducible to the byte."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Corpus", "UserError", "__version__", "open"]

if TYPE_CHECKING:
    from gristmill.api.corpus import Corpus as Corpus
    from gristmill.api.corpus import open_corpus as open
    from gristmill.errors import UserError as UserError

_WHERE = {
    "Corpus": ("gristmill.api.corpus", "Corpus"),
    "UserError": ("gristmill.errors", "UserError"),
    "open": ("gristmill.api.corpus", "open_corpus"),
}


def __getattr__(name: str) -> Any:
    """Import names on first use: a trainer imports only `gristmill.loader`, which needs very little."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    return getattr(import_module(module), attribute)
