"""`tokenizer.json` and rank files: refused with a UserError, or give a tokenizer that decodes what it encodes."""

import base64
import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.mutate import change_json
from fuzz.target import Target, hold, words
from gristmill.errors import UserError
from gristmill.kernels.bpe.train import byte_order
from gristmill.tokenizer.files import load, write_json, write_ranks
from gristmill.tokenizer.model import Tokenizer
from gristmill.tokenizer.patterns import PATTERNS

_TEXTS = ("", "The mill's 3 stones.", "\n  x\t", "Mühle 水車 👩‍👩‍👧", "<|end_of_text|> aaaa", "\0\x7f")


def _made(pattern: str = "gristmill") -> Tokenizer:
    place = {byte: number for number, byte in enumerate(byte_order().tolist())}
    pairs = [(place[ord("t")], place[ord("h")]), (256, place[ord("e")]), (place[ord("a")], place[ord("a")]), (258, 258)]
    left, right = np.array(pairs, np.int32).T
    return Tokenizer.from_merges(pattern, left, right, specials=("<|end_of_text|>", "<|x|>"), cache_bytes=1 << 16)


def _json_seeds() -> Iterator[bytes]:
    from tempfile import TemporaryDirectory

    for pattern in ("gristmill", "gpt2", "o200k"):
        with TemporaryDirectory() as folder:
            yield write_json(_made(pattern), Path(folder)).read_bytes()
    yield json.dumps(
        {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}}
    ).encode()


def _rank_seeds() -> Iterator[bytes]:
    made = _made()
    yield b"".join(
        base64.b64encode(token) + b" %d\n" % number
        for number, token in enumerate(made.definition.tokens[:260])
        if token
    )


def _check_json(data: bytes, folder: Path) -> None:
    _check(data, folder / "tokenizer.json", None)


def _check_ranks(data: bytes, folder: Path) -> None:
    _check(data, folder / "ranks.tiktoken", "cl100k")


def _check(data: bytes, path: Path, pattern: str | None) -> None:
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the library encodes
            tokenizer = load(str(path), pattern, cache_bytes=1 << 16)
    except UserError:
        return
    size = tokenizer.vocab_size
    hold(size <= 1 << 24, "a vocabulary without end")
    for text in _TEXTS:
        try:
            ids = tokenizer.encode_text(text)
        except UserError:
            hold(not isinstance(tokenizer, Tokenizer), "our own encoder refuses a text")
            continue
        hold(all(0 <= one < size for one in ids), "an id outside of the vocabulary")
        if isinstance(tokenizer, Tokenizer):
            hold(tokenizer.decode(ids) == text, f"{text!r} does not come back")
    if isinstance(tokenizer, Tokenizer):
        _check_round_trip(tokenizer, path.parent / "again")


def _check_round_trip(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    again = []
    for write in (lambda: write_json(tokenizer, folder), lambda: write_ranks(tokenizer, folder / "ranks")):
        try:
            written = write()
        except UserError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again.append(load(str(written), cache_bytes=1 << 16))
    for text in _TEXTS:
        ids = tokenizer.encode_text(text)
        hold(
            all(other.encode_text(text) == ids for other in again),
            f"written and read again it encodes {text!r} otherwise",
        )


def _change_rank(draw: random.Random, data: bytes) -> bytes:
    lines = data.splitlines()
    if not lines:
        return data
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    token, _, rank = lines[at].partition(b" ")
    spare = base64.b64encode(draw.choice((b"", b"\xff\xfe", b"the", b"a" * draw.choice((2, 8, 300)))))
    lines[at] = draw.choice((token + b" " + lines[other].partition(b" ")[2], spare + b" " + rank, token, lines[other]))
    return b"\n".join(lines)


_WORDS = words(b'{"id": |"vocab": {|"merges": [|null|[|{|"|\\ud800|,|:|4294967295|-1|1e9|"type": "Unigram"|\xc4\xa0')
_RANK_WORDS = (
    b"\n",
    b" ",
    b"== 7\n",
    b"YQ== 97\n",
    b" 4294967296",
    b" -1",
    b"YWFh 999999999\n",
    b"\xff",
    b"  ",
    b" 1_0",
    b"\r\n",
)

TARGETS = [
    Target("tokenizer_json", _json_seeds, _check_json, _WORDS, (change_json, change_json), work_per_byte=50_000),
    Target("tokenizer_ranks", _rank_seeds, _check_ranks, _RANK_WORDS, (_change_rank,), work_per_byte=50_000),
]
assert set(PATTERNS) >= {"gristmill", "gpt2", "o200k", "cl100k"}
