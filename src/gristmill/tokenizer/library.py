"""Any tokenizer that Hugging Face `tokenizers` reads, with our interface: slower, but it encodes everything.

It is used where our kernel cannot guarantee the same ids; `reason` says why.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gristmill.errors import UserError
from gristmill.install_command import install_library
from gristmill.tokenizer.alphabet import to_bytes
from gristmill.tokenizer.model import Allowed

Array = np.ndarray[Any, Any]


class LibraryTokenizer:
    """A `tokenizer.json`, encoded by the library."""

    pattern = None

    def __init__(self, json_text: str, reason: str) -> None:
        self._json_text = json_text
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return LibraryTokenizer, (self._json_text, self.reason)

    @cached_property
    def _library(self) -> Any:
        return open_library(self._json_text)

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return max(self._library.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @cached_property
    def specials(self) -> dict[str, int]:
        added = self._library.get_added_tokens_decoder()
        return {token.content: number for number, token in sorted(added.items()) if token.special}

    @cached_property
    def hash(self) -> str:
        """The hash of the file, which may contain more than what decides ids."""
        return hashlib.sha256(b"tokenizers\0" + self._json_text.encode()).hexdigest()

    def encode(self, texts: pa.Array, allow_special: Allowed = ()) -> tuple[Array, Array]:
        """As `Tokenizer.encode`."""
        if allow_special != "all" and allow_special and set(allow_special) != set(self.specials):
            raise UserError(
                f"Only some special tokens are allowed in the text, which the library cannot do, and our encoder "
                f'is not in use: {self.reason}. Allow "all" or none.'
            )
        library = self._library
        library.encode_special_tokens = not allow_special
        strings = [text or "" for text in texts.to_pylist()]
        try:
            with panics_raised():
                found = [one.ids for one in library.encode_batch_fast(strings, add_special_tokens=False)]
        except Exception as error:  # the library raises plain Exception
            raise UserError(
                f"The library cannot encode a text with this tokenizer.json ({error}), so it has no ids. "
                "Give the model an unknown token that is in its vocabulary, or use another tokenizer."
            ) from error
        offsets = np.concatenate(([0], np.cumsum([len(ids) for ids in found]))).astype(np.int64)
        return np.fromiter((token for ids in found for token in ids), np.uint32, int(offsets[-1])), offsets

    def encode_text(self, text: str, allow_special: Allowed = ()) -> list[int]:
        found: list[int] = self.encode(pa.array([text], pa.string()), allow_special)[0].tolist()
        return found

    def token_bytes(self, token: int) -> bytes:
        """The bytes of an id. A token outside the byte alphabet gives its characters."""
        spelled = self._library.id_to_token(token)
        if spelled is None:
            raise UserError(f"{token} is not an id of this tokenizer, so it has no bytes. Check the ids.")
        return to_bytes(spelled)

    def decode(self, ids: Iterable[int] | Array, keep_special: bool = True) -> str:
        return str(self._library.decode([int(token) for token in ids], skip_special_tokens=not keep_special))


@contextmanager
def panics_raised() -> Iterator[None]:
    """Turns a panic of the library, which is written in Rust, into an exception that callers can catch."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # its class cannot be imported
            raise
        raise ValueError(f"the library crashed: {error}") from error


def open_library(json_text: str, remember: bool = True) -> Any:
    """The library's tokenizer, without the truncation and padding that a file may request.

    Its cache of pre-tokens, megabytes, outlives it: pass remember=False for short use.
    """
    try:
        from tokenizers import Tokenizer as Library
    except ImportError as error:
        raise UserError(
            f"tokenizers is not installed, so no tokenizer.json can be read. Run: {install_library('tokenizers')}"
        ) from error
    with panics_raised():
        library: Any = Library.from_str(json_text)
    if not remember and hasattr(library.model, "_resize_cache"):
        library.model._resize_cache(0)
    library.no_truncation()
    library.no_padding()
    return library
