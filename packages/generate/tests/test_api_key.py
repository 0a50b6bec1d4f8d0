"""API keys: which are sent, and how they are kept out of texts."""

import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill_generate.api_key import KeyRemover, api_key
from gristmill_generate.connection import FailedRequest, excerpt, read_reply
from gristmill_generate.settings import GenerateConfig

KEYS = st.text([chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"\\'], min_size=6, max_size=20)
ESCAPES = [
    str,
    lambda one: f"\\{one}",
    lambda one: f"\\u{ord(one):04x}",
    lambda one: f"\\u{ord(one):04X}",
    lambda one: f"\\x{ord(one):02x}",
    lambda one: f"%{ord(one):02X}",
    lambda one: quote(one, safe=""),
    html.escape,
    lambda one: f"&#{ord(one)};",
    lambda one: f"&#x{ord(one):X};",
]


@given(key=KEYS, data=st.data(), depth=st.integers(0, 2))
def test_a_key_is_replaced_in_every_mixture_of_escapes(key, data, depth):
    """Also where JSON contains JSON, and where an excerpt ends inside it."""
    text = "".join(data.draw(st.sampled_from(ESCAPES))(one) for one in key)
    for _ in range(depth):
        text = json.dumps(text)[1:-1]
    remover = KeyRemover(key)
    assert remover.clean(f"a: {text} :b") == "a: [API key] :b"
    assert excerpt(text, 4, remover) == "[API"
    assert excerpt("\0".join(text), 9, remover) == "[API key]"


def test_what_a_server_says_is_one_short_line():
    """In a message, and in the detail of a document."""
    assert excerpt(" no:\r\n\n  sk-abc\ttoo\0 long ", 20, KeyRemover("sk-abc")) == "no: [API key] too lo"
    raw = json.dumps({"choices": [{"message": {"content": None, "refusal": "I will not. " * 50_000}}]}).encode()
    refusal = read_reply(raw, KeyRemover(None), b"").refusal
    assert refusal.startswith("I will not. I will not. ")
    assert len(refusal) == 200


def test_a_text_without_the_key_stays():
    text = "\\u0073k-other %73 &#115; sk-abcde \\\\" * 3
    assert KeyRemover("sk-abcdef").clean(text) == text
    assert KeyRemover(None).clean(text) == text


def test_no_field_of_an_answer_has_the_key():
    """Nor does the message about an answer that is not valid."""
    remover = KeyRemover("sk-abc/def")
    raw = r'{"choices": [{"message": {"content": "1 X", "refusal": "2 X"}, "finish_reason": "FINISH"}]}'
    raw = raw.replace("X", r"sk-\u0061bc\/def")
    reply = read_reply(raw.replace("FINISH", "stop").encode(), remover, b"")
    assert reply[:3] == ("1 [API key]", "stop", "2 [API key]")
    with pytest.raises(FailedRequest, match=r"finish_reason '3 \[API key\]'"):
        read_reply(raw.replace("FINISH", r"3 sk-\u0061bc\/def").encode(), remover, b"")
    with pytest.raises(FailedRequest, match=r"it begins with 'your \[API key\]'"):
        read_reply(rb"your sk-abc\/de\u0066", remover, b"")


@pytest.mark.parametrize("key", ["sk-abc\ndef", "sk-abc ", "sk-äbc", 'sk-"', "sk\\abc"])
def test_a_key_that_cannot_be_sent_is_an_error_that_does_not_repeat_it(monkeypatch, key):
    monkeypatch.setenv("MODEL_KEY", key)
    config = GenerateConfig(prompts=["p"], model="m", servers=["http://host/v1"], api_key_env="MODEL_KEY")
    with pytest.raises(UserError, match=r"MODEL_KEY, .* has a character that an API key cannot have") as error:
        api_key(config)
    assert "sk" not in str(error.value).replace("api_key", "")
