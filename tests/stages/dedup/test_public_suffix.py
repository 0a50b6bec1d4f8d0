"""Registered domains by the public suffix list."""

import pyarrow as pa
import pytest

from gristmill.stages.shared.public_suffix import registered_domain, registered_domains


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("example.com", "example.com"),
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("one.github.io", "one.github.io"),  # the private section of the list
        ("a.b.kobe.jp", "a.b.kobe.jp"),  # a wildcard: *.kobe.jp
        ("www.city.kobe.jp", "city.kobe.jp"),  # its exception: !city.kobe.jp
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),  # IDN in the list
        ("a.b.no-such-tld", "b.no-such-tld"),
        ("com", "com"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("10.1.2.3", "10.1.2.3"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("a..com", "a..com"),
    ],
)
def test_registered_domain_follows_the_list(host, domain):
    """Rules, wildcards, exceptions, both sections; a name without a registered domain is unchanged."""
    assert registered_domain(host) == domain


def test_a_column_is_processed_row_by_row():
    """Repeated values and nulls stay in their rows, for any slice of a column."""
    column = pa.array(["x", "www.example.com", None, "a.example.com", "www.example.com", "bbc.co.uk"]).slice(1)
    expected = ["example.com", None, "example.com", "example.com", "bbc.co.uk"]
    assert registered_domains(column).to_pylist() == expected
    assert registered_domains(column.slice(0, 0)).to_pylist() == []


def test_empty_labels_do_not_hide_a_domain():
    """`..mill.org` is below mill.org for a takedown, so an index must use the same domain."""
    for host in ("..mill.org", ".mill.org", "a..mill.org", "a..b.mill.org"):
        assert registered_domain(host) == "mill.org"
    assert registered_domain("a..org") == "a..org"
