"""The check that two tokenizers agree on texts that are hard to split and merge."""

import hashlib
import random
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from llvmlite.binding import get_host_cpu_name

from gristmill.kernels import cache_folder
from gristmill.tokenizer.hostile import HOSTILE
from gristmill.tokenizer.library import panics_raised
from gristmill.tokenizer.model import Tokenizer

Probe = Literal["always", "once", "never"]
"""When the two are compared. once: unless this machine has already found that they agree on the same file."""


def reason_against_ours(tokenizer: Tokenizer, library: object, data: bytes, probe: Probe) -> str:
    """`difference` for the tokenizer of a file with this content.

    Agreement is cached next to the compiled encoder, for this file, this code, this version of the library and this
    processor; anyone who can write there could also replace the encoder. A difference is not cached.
    """
    if probe == "never":
        return ""
    digest = hashlib.sha256(_compared().encode() + data).hexdigest()[:32]
    mark = cache_folder("gristmill.kernels.bpe.encode") / f"agrees-{digest}"
    if probe == "once" and mark.exists():
        return ""
    reason = difference(tokenizer, library)
    if probe == "once" and not reason:
        with suppress(OSError):
            mark.touch()
    return reason


@cache
def _compared() -> str:
    """The versions of both encoders and of the code that reads the file."""
    import tokenizers

    ours = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{tokenizers.__version__} {sys.version} {get_host_cpu_name()} {hashlib.sha256(ours).hexdigest()}"


def difference(tokenizer: Tokenizer, library: Any) -> str:
    """A description of the first difference between our ids and the library's; empty if all probes agree.

    The probes are the hostile texts; a thousand strings of random tokens, which cover the vocabulary; and all added
    tokens concatenated, allowed and not.
    """
    draw = random.Random(0)
    spelled = [token.decode("utf-8", "ignore") for token in tokenizer.definition.tokens]
    texts = [*HOSTILE.values(), *("".join(draw.choices(spelled, k=30)) for _ in range(1000))]
    texts += ["x".join(token.text for token in tokenizer.definition.added) + " x"]
    for allowed in ((), "all"):
        library.encode_special_tokens = not allowed
        try:
            with panics_raised():
                theirs = library.encode_batch_fast(texts, add_special_tokens=False)
        except Exception as error:  # the library raises plain Exception
            return f"the library cannot encode with it ({error})"
        ids, offsets = tokenizer.encode(pa.array(texts, pa.string()), allowed)
        for row, text in enumerate(texts):
            mine = ids[offsets[row] : offsets[row + 1]].tolist()
            if mine != theirs[row].ids:
                return f"our encoder and the library give different ids for {text[:40]!r}"
            if tokenizer.decode(mine) != library.decode(mine, skip_special_tokens=False):
                return f"our decoder and the library give different texts for {text[:40]!r}"
    return ""
