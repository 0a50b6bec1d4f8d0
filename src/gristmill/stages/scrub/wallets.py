"""Addresses of crypto wallets, by their checksums."""

import re
from collections.abc import Iterator

from gristmill.stages.scrub.checksums import base58check, bech32
from gristmill.stages.scrub.finding import PiiSpan, is_near, words

_BASE58 = re.compile(rb"[13LMDAX9r][1-9A-HJ-NP-Za-km-z]{24,35}")  # Bitcoin, Litecoin, Dogecoin, Dash, Ripple
_BECH32 = re.compile(rb"(?:bc|ltc)1[a-z0-9]{8,87}")
_HEX = re.compile(rb"0x[0-9a-fA-F]{40}")
_ABOUT = words(
    *("wallet", "wallets", "ethereum", "eth", "ether", "erc20", "metamask", "address", "donate", "donation"),
    *("donations", "crypto", "usdt", "usdc", "bnb", "polygon", "matic", "send", "pay"),
)


def find_wallet(text: bytes, start: int, stop: int) -> Iterator[PiiSpan]:
    word = text[start:stop]
    if _HEX.fullmatch(word):
        digits = word[2:].decode()
        if digits.startswith("00000000"):  # contracts of the protocol, burnt coins, and our pseudonyms
            return
        if is_near(text, start, stop, _ABOUT, 64, 24):
            yield PiiSpan(start, stop, "wallet", word.decode().lower())
    elif _BECH32.fullmatch(word):
        if bech32(word):
            yield PiiSpan(start, stop, "wallet", word.decode())
    elif _BASE58.fullmatch(word) and base58check(word, ripple=word.startswith(b"r")):
        yield PiiSpan(start, stop, "wallet", word.decode())
