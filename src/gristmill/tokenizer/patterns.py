r"""The regular expressions that split text into pre-tokens, by name, and their recognition in a `tokenizer.json`.

Each expression is as published, and its scanner (`kernels.bpe.pretokenize`) splits as Hugging Face `tokenizers` does.
Differences between engines, measured with tokenizers 0.23.3 (Oniguruma), tiktoken 0.14 (fancy-regex) and regex
2026.11:

- `(?i:'s)` matches U+017F (long s) in all three.
- `\p{N}{1,3}+` is possessive in tiktoken and regex; in Oniguruma it is `(?:\p{N}{1,3})+`, all digits at once. So
  tiktoken's cl100k expression since 0.8 cannot be used in a `tokenizer.json`, and is not recognised in one.
- The same expression gained `\s++$`: white space at the end of a text is one pre-token even with newlines, and the
  ids of such texts (`"a\n  "`) changed. `cl100k_tail` is equivalent, and all engines read it alike.
- `?+` for `?` and `++` for `+` as used here, `\s*[\r\n]` for `\s*[\r\n]+`, a last `\s` for `\s+`: these split every
  text in the same way, so `gristmill`, `llama3` and `cl100k` share a scanner.
- Unicode: 16.0 in Oniguruma, 18.0 in regex; see `kernels.bpe.pretoken_classes`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gristmill.kernels.bpe.pretokenize import CL100K, CL100K_TAIL, GPT2, O200K, QWEN2


class Pattern(NamedTuple):
    """A regular expression and its scanner."""

    text: str
    """The expression in a `tokenizer.json`."""
    scanner: int
    """The scanner's number in `kernels.bpe.pretokenize`."""
    source: str
    """Where the text was published."""


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

PATTERNS = {
    "gristmill": Pattern(
        _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        CL100K,
        "our default: Llama 3's, with possessive quantifiers for engines that backtrack",
    ),
    "llama3": Pattern(
        _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        CL100K,
        "Llama 3 tokenizer.json; cl100k_base in tiktoken up to 0.4; transformers' TikTokenConverter",
    ),
    "cl100k": Pattern(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
        CL100K,
        "tiktoken 0.7, tiktoken_ext/openai_public.py, cl100k_base",
    ),
    "cl100k_tail": Pattern(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        CL100K_TAIL,
        "tiktoken since 0.8, cl100k_base, with {1,3} for {1,3}+",
    ),
    "gpt2": Pattern(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        GPT2,
        "openai/gpt-2, src/encoder.py, less <|endoftext|>; ByteLevel of tokenizers with use_regex",
    ),
    "o200k": Pattern(
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        O200K,
        "tiktoken, tiktoken_ext/openai_public.py, o200k_base; gpt-oss",
    ),
    "qwen2": Pattern(
        _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        QWEN2,
        "Qwen 2, 2.5 and 3 tokenizer.json; transformers, models/qwen2/tokenization_qwen2.py",
    ),
}

OTHER_TEXTS = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",  # tiktoken 0.7
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",  # tiktoken since 0.8
}
"""Other expressions that split exactly like a named pattern."""


def recognise(text: str) -> str | None:
    """The name of the pattern with exactly this expression; None if there is no scanner for it."""
    for name, pattern in PATTERNS.items():
        if pattern.text == text:
            return name
    return OTHER_TEXTS.get(text)


def pattern_of(pre_tokenizer: Mapping[str, Any] | None) -> str | None:
    """The name of the pattern in the `pre_tokenizer` of a `tokenizer.json`; None if there is no scanner for it.

    Recognizes `ByteLevel` with its own expression, which is GPT-2's, and a `Split` before a `ByteLevel` without one. A
    pattern matches every character, so isolating matches and removing everything else are equivalent.
    """
    if not pre_tokenizer:
        return None
    if _is_byte_level(pre_tokenizer, use_regex=True):
        return "gpt2"
    parts = pre_tokenizer.get("pretokenizers") or []
    if pre_tokenizer.get("type") != "Sequence" or len(parts) != 2 or parts[0].get("type") != "Split":
        return None
    keeps = parts[0].get("behavior") == "Isolated" or (parts[0].get("behavior") == "Removed" and parts[0].get("invert"))
    if not keeps or not _is_byte_level(parts[1], use_regex=False):
        return None
    expression = parts[0].get("pattern", {}).get("Regex")
    return recognise(expression) if isinstance(expression, str) else None


def _is_byte_level(part: Mapping[str, Any], use_regex: bool) -> bool:
    """Whether it maps bytes to characters, adds no space in front, and has this `use_regex`."""
    return (
        part.get("type") == "ByteLevel"
        and not part.get("add_prefix_space", True)
        and part.get("use_regex", True) == use_regex
    )
