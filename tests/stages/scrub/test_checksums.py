"""Check digits against published examples."""

import pytest

from gristmill.stages.scrub.checksums import base58check, bech32, check_of, luhn, mod_97, steuer_id, verhoeff


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (luhn, "79927398713"),
        (luhn, "4012888888881881"),
        (mod_97, "GB82WEST12345698765432"),
        (mod_97, "FR1420041010050500013M02606"),
        (steuer_id, "86095742719"),
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
    """Examples of BIP 173, BIP 350, Bitcoin's first block and Ripple's root account."""
    assert base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
    assert not base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb")
    assert base58check(b"rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", ripple=True)
    assert bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")
    assert bech32(b"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0")
    assert not bech32(b"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5")


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("9 8 7 6 5 4 3 2 -1 mod 11", "111222333"),
        ("10 9 8 7 6 5 4 3 2 1 0 mod 11/10", "11144477735"),
        ("3 2 7 6 5 4 3 2 1 mod 11", "30686957" + "4"),
        ("7 9 10 5 8 4 2 1 6 3 7 9 10 5 8 4 2 1 mod 11 is 1", "11010519491231002X"),
    ],
)
def test_a_sum_of_weights_is_a_check(rule, value):
    """Published examples: the Netherlands, Brazil, Chile, China."""
    check = check_of(rule)
    assert check(value)
    assert not check(str((int(value[0]) + 1) % 10) + value[1:])
