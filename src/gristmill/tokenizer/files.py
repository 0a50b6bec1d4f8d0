"""Tokenizer files: Hugging Face `tokenizer.json` and tiktoken rank files, read and written.

`load` reads any `tokenizer.json`. If it is byte-level BPE with a pattern that we have a scanner for, our kernel
encodes; this is checked against `tokenizers`, on texts that are hard to split and on the vocabulary. Anything else is
encoded by the library, with a warning that says why. Post-processors, truncation and padding are ignored: encoding a
document adds no tokens.

A rank file has a line for each token: its bytes in base64, and its rank, which is its id. Pattern and special tokens
are in a JSON file next to it (`NAME.json`), or the caller names the pattern.
"""

import base64
import binascii
import json
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.places import system_of
from gristmill.tokenizer.alphabet import spelled_bytes, to_bytes, to_text
from gristmill.tokenizer.bounds import MOST_BYTES, MOST_TOKEN_BYTES, check_ids, check_spec
from gristmill.tokenizer.library import LibraryTokenizer, open_library
from gristmill.tokenizer.model import CACHE_BYTES, Added, Definition, Tokenizer
from gristmill.tokenizer.patterns import PATTERNS, pattern_of
from gristmill.tokenizer.probe import Probe, reason_against_ours
from gristmill.tokenizer.rank_rule import model_ids, reason_against_ranks
from gristmill.tokenizer.special import BEGIN_OF_TEXT, END_OF_TEXT, PAD

_NO_IDS = "so no text can be encoded"


def load(
    uri: str, pattern: str | None = None, cache_bytes: int = CACHE_BYTES, probe: Probe = "always"
) -> Tokenizer | LibraryTokenizer:
    """The tokenizer of a `tokenizer.json`, of a folder with one, or of a rank file.

    `pattern` is for a rank file without a JSON file next to it. `probe` says when our encoder is checked against the
    library: `once` is for files that many workers and commands open.
    """
    filesystem, path = system_of(str(uri))
    if filesystem.isdir(path):
        path = f"{path.rstrip('/')}/tokenizer.json"
    try:
        data = _read(filesystem, path, uri)
        sidecar = _read(filesystem, path + ".json", uri) if filesystem.exists(path + ".json") else None
    except OSError as error:
        raise UserError(f"{uri}: {error.strerror or 'no such file'}; {_NO_IDS}. Check the path.") from error
    if data.lstrip()[:1] != b"{":
        return Tokenizer(_parse_ranks(data, sidecar, pattern, str(uri)), cache_bytes)
    if pattern is not None:
        raise UserError(
            f"{uri} is a tokenizer.json, which names its own pattern, but {pattern!r} was given. Leave it out."
        )
    return _parse_json(data, str(uri), cache_bytes, probe)


def _read(filesystem: Any, path: str, uri: str) -> bytes:
    with filesystem.open(path, "rb") as file:
        data = bytearray()  # in pieces: one large read would allocate all of it
        while len(data) <= MOST_BYTES and (piece := file.read(1 << 20)):
            data += piece
    if len(data) > MOST_BYTES:
        raise UserError(
            f"{uri} is larger than {MOST_BYTES >> 20} MiB, so it is not a tokenizer, {_NO_IDS}. Check the path."
        )
    return bytes(data)


def _parse_json(data: bytes, uri: str, cache_bytes: int, probe: Probe) -> Tokenizer | LibraryTokenizer:
    try:
        text = data.decode()
        spec = json.loads(text)
        check_spec(spec, uri)
        if isinstance(spec["model"], dict) and spec["model"].get("dropout"):
            raise UserError(
                f"{uri} has dropout in its model, which encodes a text differently each time, so no corpus could be "
                "reproduced. Set `dropout` to null: it is for training with a tokenizer, not for shards."
            )
        library = open_library(text, remember=False)
    except UserError:
        raise
    except Exception as error:  # the library raises plain Exception; endless nesting is a RecursionError
        raise UserError(
            f"{uri} is not a tokenizer.json that `tokenizers` reads ({error}), {_NO_IDS}. "
            "Save it again with the library that wrote it, or get a complete copy."
        ) from error
    reason = _reason_against(spec)
    if not reason:
        tokenizer = Tokenizer(_definition(spec), cache_bytes)
        reason = reason_against_ours(tokenizer, library, data, probe)
        if not reason:
            return tokenizer
    warnings.warn(f"{uri} is encoded by the library, about 30 times slower: {reason}.", stacklevel=3)
    return LibraryTokenizer(text, reason)


def _reason_against(spec: dict[str, Any]) -> str:
    """Why our kernel cannot encode with this file; empty if it can."""
    model = spec["model"]
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        return f"its model is {model.get('type')}, not BPE"
    for field in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(field):
            return f"its model has {field}"
    if spec.get("normalizer"):
        return f"it changes the text before it encodes it (normalizer {spec['normalizer'].get('type')})"
    if pattern_of(spec.get("pre_tokenizer")) is None:
        return f"its pre-tokenizer is not one of the patterns {', '.join(PATTERNS)} before a plain ByteLevel"
    if (spec.get("decoder") or {}).get("type") != "ByteLevel":
        return "its decoder is not ByteLevel"
    vocabulary = model["vocab"]
    if (longest := max(map(len, vocabulary), default=0)) > MOST_TOKEN_BYTES:
        return f"it has a token of {counted(longest, 'character')}"
    if len({*vocabulary.values()}) != len(vocabulary):
        return "two of its tokens share an id"
    if missing := sum(to_text(bytes([byte])) not in vocabulary for byte in range(256)):
        return f"{missing} of the 256 bytes have no token"
    added = spec.get("added_tokens") or []
    for token in added:
        for field in ("lstrip", "rstrip", "single_word"):
            if token.get(field):
                return f"its added token {token['content']!r} has {field}"
    if len({bool(token.get("normalized")) for token in added}) > 1:
        return "its added tokens are matched in two passes (normalized and not)"
    return ""


def _definition(spec: dict[str, Any]) -> Definition:
    model, name = spec["model"], pattern_of(spec["pre_tokenizer"])
    vocabulary: dict[str, int] = model["vocab"]
    added = tuple(
        Added(token["content"], token["id"], bool(token["special"]))
        for token in spec.get("added_tokens") or ()
        if token["content"]
    )
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    sides = (
        np.array([vocabulary[one] for one, _ in merges], np.int32),
        np.array([vocabulary[other] for _, other in merges], np.int32),
        np.array([vocabulary[one + other] for one, other in merges], np.int32),
    )
    tokens = [b""] * (max((*vocabulary.values(), *(token.id for token in added))) + 1)
    for text, number in vocabulary.items():
        tokens[number] = to_bytes(text)
    for token in added:
        tokens[token.id] = to_bytes(token.text)
    whole: Iterable[int] = ()
    if model.get("ignore_merges"):
        whole = sorted(number for text, number in vocabulary.items() if spelled_bytes(text))
    return Definition(
        str(name),
        tuple(tokens),
        np.array([vocabulary[to_text(bytes([byte]))] for byte in range(256)], np.int32),
        *sides,
        np.arange(len(merges), dtype=np.int32),
        added,
        tuple(whole),
    )


def _parse_ranks(data: bytes, sidecar: bytes | None, pattern: str | None, uri: str) -> Definition:
    """The definition of a rank file: two neighbours merge into the token with their bytes, lowest rank first."""
    specials: dict[str, int] = {}
    try:
        if sidecar is not None:
            described = json.loads(sidecar)
            pattern, specials = pattern or described["pattern"], dict(described["special_tokens"])
        ranks = _ranks(data)
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError) as error:
        raise UserError(
            f"{uri} is neither a tokenizer.json nor a rank file (lines of base64 and a number: {error}), {_NO_IDS}. "
            "Check the path, or get a complete copy."
        ) from error
    check_ids(chain(ranks.items(), specials.items()), uri)
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        fact = "does not name the pattern" if pattern is None else f"has an unknown pattern, {pattern!r}"
        raise UserError(f"{uri} {fact}, {_NO_IDS}. Name one: {', '.join(PATTERNS)}.")
    if missing := sum(bytes([byte]) not in ranks for byte in range(256)):
        raise UserError(f"{uri} has no token for {missing} of the 256 bytes, {_NO_IDS}. Get a complete copy.")
    numbers = [*ranks.values(), *specials.values()]
    if len({*numbers}) < len(numbers):
        twice = next(number for number, times in Counter(numbers).items() if times > 1)
        raise UserError(f"{uri} gives two tokens the id {twice}, {_NO_IDS}. Get a complete copy.")
    longest = max(map(len, ranks))
    if longest > MOST_TOKEN_BYTES:
        raise UserError(
            f"{uri} has a token of {longest} bytes (at most {MOST_TOKEN_BYTES} are allowed), {_NO_IDS}. Copy it again."
        )
    tokens = [b""] * (max(numbers) + 1)
    sides: list[tuple[int, int, int]] = []
    for token, rank in ranks.items():
        tokens[rank] = token
        for cut in range(1, len(token)):
            if token[:cut] in ranks and token[cut:] in ranks:
                sides.append((ranks[token[:cut]], ranks[token[cut:]], rank))
    for text, number in specials.items():
        tokens[number] = text.encode()
    left, right, made = np.array(sides, np.int32).reshape(-1, 3).T.copy()
    byte_ids = np.array([ranks[bytes([byte])] for byte in range(256)], np.int32)
    added = tuple(Added(text, number) for text, number in specials.items())
    whole = tuple(sorted(ranks.values()))  # like tiktoken, keep a pre-token that is a token
    return Definition(pattern, tuple(tokens), byte_ids, left, right, made, made, added, whole)


def _ranks(data: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for line in data.splitlines():
        if not line.strip():
            continue
        token, rank = line.split()
        # Digits only: `int` would accept 1_0 as 10, and a number of a thousand digits.
        if not rank.isdigit() or len(rank) > 18:
            raise ValueError(f"{rank[:40]!r} is not a rank")
        ranks[base64.b64decode(token, validate=True)] = int(rank)
    if b"" in ranks:
        raise ValueError("a token without bytes")
    return ranks


def write_json(tokenizer: Tokenizer, folder: Path) -> Path:
    """Writes `tokenizer.json` and, for transformers' PreTrainedTokenizerFast, `tokenizer_config.json`."""
    this = tokenizer.definition
    outside = {token.id for token in this.added} - model_ids(this)
    spelled = {number: to_text(token) for number, token in enumerate(this.tokens) if token and number not in outside}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    merges = np.argsort(this.ranks, kind="stable").tolist()
    spec = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token.id, "content": token.text, **flags, "special": token.special}
            for token in sorted(this.added, key=lambda token: token.id)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": PATTERNS[this.pattern].text},
                    "behavior": "Isolated",
                    "invert": False,
                },
                _byte_level(use_regex=False),
            ],
        },
        "post_processor": None,
        "decoder": _byte_level(use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": bool(this.whole),
            "vocab": {text: number for number, text in spelled.items()},
            "merges": [f"{spelled[int(this.left[n])]} {spelled[int(this.right[n])]}" for n in merges],
        },
    }
    roles = {"bos_token": BEGIN_OF_TEXT, "eos_token": END_OF_TEXT, "pad_token": PAD}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        **{role: text for role, text in roles.items() if text in tokenizer.specials},
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tokenizer_config.json", config)
    return _write(folder / "tokenizer.json", spec)


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _write(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return path


def write_ranks(tokenizer: Tokenizer, path: Path) -> Path:
    """Writes a rank file for tiktoken, and next to it `NAME.json` with the pattern and the special tokens."""
    this = tokenizer.definition
    if reason := reason_against_ranks(this):
        raise UserError(
            f"This tokenizer cannot be written as a rank file: {reason}, so tiktoken would give other ids. "
            "Export it as tokenizer.json."
        )
    outside = {token.id for token in this.added}
    lines = [
        f"{base64.b64encode(token).decode()} {number}\n"
        for number, token in enumerate(this.tokens)
        if token and number not in outside
    ]
    path.write_text("".join(lines), encoding="ascii")
    described = {
        "pattern": this.pattern,
        "pat_str": PATTERNS[this.pattern].text,
        "special_tokens": {token.text: token.id for token in this.added},
    }
    _write(path.with_name(path.name + ".json"), described)
    return path
