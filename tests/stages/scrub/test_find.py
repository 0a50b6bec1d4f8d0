"""Findings: precision and recall on a labelled set, and guards against known faults."""

import pytest
from tests.stages.scrub.labelled import labelled
from tests.stages.scrub.scrubbed import found_in, precision_and_recall, scrub_texts

FLOORS = {
    "email": (0.98, 0.95),
    "ip": (0.98, 0.95),
    "card": (0.98, 0.95),
    "iban": (0.98, 0.95),
    "secret": (0.98, 0.95),
    "wallet": (0.98, 0.95),
    "national_id": (0.95, 0.9),
    "phone": (0.9, 0.9),
}


@pytest.fixture(scope="module", params=[16, 17])
def judged(request):
    """Two draws of the set, and the findings in each."""
    known = labelled(request.param)
    answers = scrub_texts(
        [one.text for one in known], [one.language for one in known], [one.url for one in known], max_density=None
    )
    return [one.spans for one in known], found_in(answers)


@pytest.mark.parametrize("kind", FLOORS)
def test_precision_and_recall(kind, judged):
    """To the byte, among decoys: code, versions, ISBNs, dates, hashes, coordinates, part numbers."""
    precision, recall = precision_and_recall(*judged, kind)
    assert (precision >= FLOORS[kind][0], recall >= FLOORS[kind][1]) == (True, True), (precision, recall)


def found(text, language="en", **settings):
    data = text.encode()
    spans = found_in(scrub_texts([text], [language], max_density=None, **settings))[0]
    return [(kind, data[start:stop].decode()) for start, stop, kind in sorted(spans)]


@pytest.mark.parametrize(
    "text",
    [
        "foo@1.2.3",
        "v1.2.3.4.5",
        "## 1.2.3.4\n- fixes",
        "git@github.com:a/b.git",
        "ssh://git@host.com/a",
        "x@y.map(z)",
        "user@example.com",
        "a@b.invalid",
        "logo@2x.png",
        "https://user:${PASS}@host.com",
        "https://me:secret@example.org/",
        "192.168.0.1 10.1.2.3 127.0.0.1 169.254.1.1 203.0.113.9 fe80::1:2 2001:db8::1",
        "4111 1111 1111 1112",
        "DE89 3704 0044 0532 0130 01",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "123e4567-e89b-12d3-a456-426614174000",
        "viewBox='-60 -1 530 1052'",
        "postgres://guest:guest@localhost/app postgres://user:password@db.corp.local",
        "amqp://me:<password>@localhost redis://:${PASS}@cache.internal",
        "C = +12345678901 units",
        "x =+14158675309",
        "e.g., ['7.1.4.34', 1806]",
        'state" and "8.2.4.45 Markup declaration open',
        "### SQL Server 2012 Upgrade Advisor, **Version 1.1.0.102**",
        "SQL Server Connector version 1.0.4.0 is installed on the SQL Server",
        "| DacFx Version | `162.2.33.41` | on the server |",
        '"contentVersion": "145.33.32.156"',
        "[Extensions] 2.5.29.37 = x",
        "said.\n\n38.17.6.1.\u00a0Security of the server",
        "postgres://app:your_password@db.corp.com/x",
        "mysql://root:MyStrongPassw0rd@db.corp.com postgres://u:changeme@db.corp.com redis://:password_here@h.io",
        "amqp://me:%(pw)s@mq.corp.com amqp://me:#{pw}@mq.corp.com https://u:{{ password }}@h.io",
        "meet me at home dot com, look at amazon dot com, or visit us at mill dot org",
        "point at the dot in the middle; LOOK AT EACH DOT TO SEE IT; at first Dot could",
        "matrix.at(at).x, foo[at].com, jane at example dot com, see (at) page.two",
        "icon@ui.app.png",
        "he worked at yahoo dot com, and she WORKS AT MILL DOT COM",
        "concert @ mill.org, Dinner @ mill.org",
        "updated the package from 91.198.174.192 to 91.198.175.10; upgrade from 91.198.174.192",
        "Version 91.198.174.102 and 91.198.174.103",
        "versions 1.2.3.4, 1.2.3.5; Version 3 (91.198.174.103)",
        "Upgrade from version 91.4.52.1 to 91.5.60.2",
        "meet at noon dot com, then have lunch",
        "A @ b.com, y @ np.linalg.co(x), read more @ mill.org, sale @ mill.org/news, x\n@ mill.org, jane @mill.org",
        "list%40example.com System.Int32%40%29.com %40mill.org",
        "https://jane@gmail.com/u",
    ],
)
def test_lookalikes_are_kept(text):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a@b.co", [("email", "a@b.co")]),
        ("Write to x.y@foo.org.", [("email", "x.y@foo.org")]),
        ("请写信给li@qq.com。", [("email", "li@qq.com")]),
        ("post@müller.de!", [("email", "post@müller.de")]),
        ("(josé.garcía@correo.es)", [("email", "josé.garcía@correo.es")]),
        ("müller@web.de, bjørn.åsen@online.no", [("email", "müller@web.de"), ("email", "bjørn.åsen@online.no")]),
        ("Jose\u0301@correo.es", [("email", "Jose\u0301@correo.es")]),
        ("адрес: иван@почта.рф.", [("email", "иван@почта.рф")]),
        ("γιώργος@web.gr", [("email", "γιώργος@web.gr")]),
        ("अनिल@डाटामेल.भारत", [("email", "अनिल@डाटामेल.भारत")]),
        ("联系 李雷@qq.com", [("email", "李雷@qq.com")]),
        ("邮箱是abc@qq.com联系", [("email", "abc@qq.com")]),
        ("メールはjosé@correo.esへ", [("email", "josé@correo.es")]),
        ("อีเมลabc@mail.co.th", [("email", "abc@mail.co.th")]),
        ("é" * 40 + "@web.de", [("email", "é" * 32 + "@web.de")]),
        ("a@b.com@c.org", [("email", "b.com@c.org")]),
        ("jane@mill.org.txt", [("email", "jane@mill.org")]),
        ("Ask jane@mill.org.Then come.", [("email", "jane@mill.org")]),
        ("jane.doe AT mill DOT org", [("email", "jane.doe AT mill DOT org")]),
        ("JANE AT MAIL DOT MILL DOT CO DOT UK!", [("email", "JANE AT MAIL DOT MILL DOT CO DOT UK")]),
        ("to john dot doe at mill dot edu.", [("email", "john dot doe at mill dot edu")]),
        ("bob [at] foo [dot] com", [("email", "bob [at] foo [dot] com")]),
        ("info(at)zdh(dot)de", [("email", "info(at)zdh(dot)de")]),
        ("support { AT } fairkom.eu;", [("email", "support { AT } fairkom.eu")]),
        ("'jane-at-mill-dot-com'", [("email", "jane-at-mill-dot-com")]),
        ("name AT mill DOT org", [("email", "name AT mill DOT org")]),
        ("sales at mill dot org, Huy @ mill.org", [("email", "sales at mill dot org"), ("email", "Huy @ mill.org")]),
        ("write to karin @ firma.at", [("email", "karin @ firma.at")]),
        ("/u/jane.roe@millwright.de.html", [("email", "jane.roe@millwright.de")]),
        ("the package from 91.198.174.192", [("ip", "91.198.174.192")]),
        ("john.smith @ gmail.com", [("email", "john.smith @ gmail.com")]),
        ("to max.muster%40web.de.", [("email", "max.muster%40web.de")]),
        ("https://mill.org/?q=by%3Ali%2Bx%40163.com&n=1", [("email", "li%2Bx%40163.com")]),
        ("https://jane.roe77@gmail.com@x.example/u", [("email", "jane.roe77@gmail.com")]),
        ("ftp://jane.roe77@gmail.com:@x.example/u", [("email", "jane.roe77@gmail.com")]),
        ("ssh://jane.roe77%40gmail.com@x.example", [("email", "jane.roe77%40gmail.com")]),
        ("jane [at] mill dot de", [("email", "jane [at] mill dot de")]),
        ("# version 3\n45.33.32.156", [("ip", "45.33.32.156")]),
        ("Version 2 runs at 91.198.174.195.", [("ip", "91.198.174.195")]),
        ("Since version 3.2 the mirror answers on 91.198.174.196", [("ip", "91.198.174.196")]),
        ("Firmware v5 connects to 91.198.174.199:443", [("ip", "91.198.174.199")]),
        ("Firmware v5 talks with 91.198.174.199", [("ip", "91.198.174.199")]),
        ("the update of 91.198.174.199:443", [("ip", "91.198.174.199")]),
        ("get the update at 91.198.174.199", [("ip", "91.198.174.199")]),
        ("Version 2 работает как 91.198.174.195", [("ip", "91.198.174.195")]),
        ("version 3 of the host 45.33.32.156", [("ip", "45.33.32.156")]),
        ("upgraded http://45.33.32.156/x.png", [("ip", "45.33.32.156")]),
        ('PeerIpAddress = "14.1.10.1"', [("ip", "14.1.10.1")]),
        ('prefix = "14.1.10.1/32"', [("ip", "14.1.10.1")]),
        ("http://45.33.32.156:80/", [("ip", "45.33.32.156")]),
        ("from 1.2.3.4 (client ip)", [("ip", "1.2.3.4")]),
        ("[2607:f8b0:4004:c07::64]:443", [("ip", "2607:f8b0:4004:c07::64")]),
        ("+49 - (30) - 901 820", [("phone", "+49 - (30) - 901 820")]),
        ("Hemet, CA 92544  (909) 927-7678", [("phone", "(909) 927-7678")]),
        ("tel:+1(415)867-5309", [("phone", "+1(415)867-5309")]),
        ("postgres://u:pa55word@db:5432/x", [("secret", "pa55word")]),
        ("postgres://admin:kX9vQ2mLp7Zt@db.corp.internal:5432/app", [("secret", "kX9vQ2mLp7Zt")]),
        ("mysql://admin:kX9vQ2mLp7Zt@db.corp.local", [("secret", "kX9vQ2mLp7Zt")]),
        ("postgres://admin:Sup3rS3cr3t!@localhost/app", [("secret", "Sup3rS3cr3t!")]),
        ("redis://:kX9vQ2mLp7Zt@[::1]:6379", [("secret", "kX9vQ2mLp7Zt")]),
        ("phone = +14158675309", [("phone", "+14158675309")]),
        ("TWILIO_FROM=+14158675309", [("phone", "+14158675309")]),
        ("x = +1 415 867 5309", [("phone", "+1 415 867 5309")]),
        ("Reach us at +14158675309", [("phone", "+14158675309")]),
        ("from host 7.1.4.34", [("ip", "7.1.4.34")]),
        ("card: 12 4111 1111 1111 1111", [("card", "4111 1111 1111 1111")]),
        ("4111 1111 1111 1111 123", [("card", "4111 1111 1111 1111")]),
        ("cards 4012888888881881, 4111111111111111", [("card", "4012888888881881"), ("card", "4111111111111111")]),
    ],
)
def test_edges(text, wanted):
    """At the ends of a text, before punctuation, in other scripts."""
    assert found(text) == wanted


def test_a_number_without_country_needs_a_place():
    """The language, the domain of the URL, or the recipe determines the country."""
    text = "0151 23456789 (werktags)"
    assert found(text) == []
    assert found(text, "de") == [("phone", "0151 23456789")]
    assert found(text, regions=["DE"]) == [("phone", "0151 23456789")]
    assert found_in(scrub_texts([text], urls=["https://a.de/x"]))[0]


def test_arguments_of_a_call_are_not_a_phone_number():
    """A colour in CSS is grouped as a Spanish number is."""
    assert found("border: 1px solid rgb(96 139 168);", "es") == []


def test_both_spellings_of_an_address_have_one_pseudonym(tmp_path):
    """An address whose signs are words counts as that address."""
    (tmp_path / "key").write_bytes(bytes(range(32)))
    texts = ["jane@mill.org", "JANE (at) mill [dot] org", "jane at mill dot org", "Jane @ mill.org", "jane%40mill.org"]
    after = scrub_texts(texts, action="pseudonym", key=str(tmp_path / "key"))["text"].to_pylist()
    assert len(set(after)) == 1


def test_a_private_key_goes_whole():
    """With an end and without one; the text after it stays."""
    body = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDD0tPVdu2vfKJq" for _ in range(3))
    for end in ("\n-----END RSA PRIVATE KEY-----", ""):
        key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}{end}"
        assert found(f"a\n{key}\n# b") == [("secret", key)]


def test_a_private_key_of_any_length_goes_whole():
    """A long block must look like a key throughout: prose between two distant marks stays."""
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDD0tPVdu2vfKJq\n"
    begin, end = "-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----"
    for lines in (240, 260, 2_000):  # 16 KB are 248 lines
        key = begin + line * lines + end
        assert found(f"a\n{key}\n# b") == [("secret", key)]
    prose = "A key begins like this. " * 1_000
    ((_, taken),) = found(begin + line * 3 + prose + end)
    assert prose[24:] not in taken
