"""Check digits against published examples."""

import pytest

from gristmill.kernels.scrub.keccak import keccak_256
from gristmill.stages.scrub.checksums import base58check, bech32, eip_55, luhn, mod_11_10, mod_97, verhoeff


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (luhn, "79927398713"),
        (luhn, "4012888888881881"),
        (mod_97, "GB82WEST12345698765432"),
        (mod_97, "FR1420041010050500013M02606"),
        (mod_11_10, "86095742719"),
        (verhoeff, "2363"),
    ],
)
def test_one_wrong_digit_is_detected(check, value):
    """A published number passes, but none that differs from it in one digit."""
    assert check(value)
    for place, char in enumerate(value):
        if char.isdigit():
            assert not check(value[:place] + str((int(char) + 1) % 10) + value[place + 1 :])


def test_wallets():
    """Examples of BIP 173, BIP 350, EIP-55, Bitcoin's first block and Ripple's root account."""
    assert base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
    assert not base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb")
    assert base58check(b"rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", ripple=True)
    assert bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")
    assert bech32(b"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0")
    assert not bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5")
    assert eip_55("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
    assert not eip_55("5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD")


def test_keccak():
    """The hash of the empty string and of `abc`, as in Ethereum; and at most one block."""
    assert keccak_256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak_256(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    with pytest.raises(ValueError, match="135"):
        keccak_256(bytes(136))
