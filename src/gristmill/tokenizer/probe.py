"""Texts that are hard to split and merge, and the check that two tokenizers agree on them."""

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
from gristmill.tokenizer.library import panics_raised
from gristmill.tokenizer.model import Tokenizer

HOSTILE = (
    "",
    " ",
    "a",
    "Hello, World! It's the DOG'S 3rd test; we'll see what they've done. I'D say 'tis",
    "    def f(x):\n\t\treturn  x\n\n\n   # 1234567\r\n\r\n  \t end  ",
    "\t\t\n \n  \n   x\r\ry \u00a0\u2003\u3000z\u0085\u2028w\u001c\u001d ",
    r"$\frac{\partial^2 u}{\partial x^2} = \sum_{i=1}^{n} \alpha_i \cdot e^{-\lambda t}$ \begin{align}&\\\end{align}",
    "统一码是计算机科学领域里的一项业界标准。日本語のテキスト、カタカナとひらがな。한국어 텍스트입니다.",
    "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪🇯🇵 ❤️‍🔥 1️⃣ e\u0301 a\u0300\u0323 Z\u0351\u036b\u0343 ñ n\u0303 \u200d\u200c\ufeff",
    "שלום עולם! مرحبا بالعالم ١٢٣٤٥ \u202etxet\u202c ความพยายาม हिन्दी क्षेत्र বাংলা",
    "https://example.org/a/b?c=d&e=f#g%20h user@example.org 192.168.0.1 ::1 C:\\Windows\\x.dll",
    "SELECT a.id, COUNT(*) FROM t AS a LEFT JOIN u ON a.id=u.id WHERE x<>'y''z' AND n>=10 -- ok\nGROUP BY 1;",
    "camelCaseWords snake_case_words SCREAMING_CASE HTTPServer2XML iPhone ǅungla ʼn ſ 'ſ 'S 'Re '\u017f",
    "1 12 123 1234 12345 3.14159 1,000,000 0xDEADBEEF ½ ² Ⅷ ௧௨ 一二三",
    "{}[]()<>!?!?...---***///\n//\n\n ===\r\n #!/bin/sh \"'`~@^&|",
    "<|begin_of_text|><|end_of_text|><s></s>[INST] <|im_start|>user <think> <|endoftext|>",
    "\x00\x01\x02\x7f\x80\x81\x9f\xad\xff\ufffd\ufffe\U0010ffff\U000e0001",
    bytes(range(256)).decode("latin-1") * 2,
    " " * 300 + "\n" * 50 + "a" * 500 + "ab" * 300 + "\u3042" * 200 + "-" * 400 + "7" * 50,
)
"""Indentation, white space, LaTeX, CJK, joined emoji, combining marks, right-to-left, URLs, SQL, case, binary, runs."""

Probe = Literal["always", "once", "never"]
"""When the two are compared. once: unless this machine has already found that they agree on the same file."""


def reason_against_ours(tokenizer: Tokenizer, library: object, data: bytes, probe: Probe) -> str:
    """`difference` for the tokenizer of a file with this content.

    Agreement is cached next to the compiled encoder, for this file, this code, this version of the library and this
    processor; anyone who can write there could also replace the encoder. A difference is not cached.
    """
    if probe == "never":
        return ""
    mark = cache_folder("bpe.encode") / f"agrees-{hashlib.sha256(_compared().encode() + data).hexdigest()[:32]}"
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
    texts = [*HOSTILE, *("".join(draw.choices(spelled, k=30)) for _ in range(1000))]
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
