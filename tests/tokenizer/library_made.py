"""Tokenizers trained by the library on Python's own documentation, for comparison."""

import json
from functools import lru_cache
from pydoc_data import topics
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from gristmill.tokenizer.patterns import PATTERNS

SPECIALS = ("<|end|>", "<|end|>>", "<|think|>", "\u2581x")


@lru_cache(maxsize=32)
def library_json(pattern: str, ignore_merges: bool = False, vocab: int = 1200) -> str:
    """A tokenizer.json with a pattern, some special tokens and an added token that is not special."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS[pattern].text), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(SPECIALS[:2]),
        show_progress=False,
    )
    some = [text for _, text in sorted(topics.topics.items())[:30]]
    trained.train_from_iterator(
        [*some, "été über 日本語 日本 的是 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 " * 50], trainer
    )
    trained.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIALS[2:]])
    trained.add_tokens([AddedToken("<plain>", normalized=False)])
    spec = json.loads(trained.to_str())
    spec["model"]["ignore_merges"] = ignore_merges
    return json.dumps(spec)


def changed(text: str, **changes: Any) -> str:
    """The same file with fields of the model (`model_...`) or of the top level changed."""
    spec = json.loads(text)
    for name, value in changes.items():
        place = spec["model"] if name.startswith("model_") else spec
        place[name.removeprefix("model_")] = value
    return json.dumps(spec)
