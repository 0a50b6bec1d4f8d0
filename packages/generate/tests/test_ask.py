"""Asking servers: which side is at fault, and what happens then. The server is a real one, in a thread."""

import gzip
import json
import threading

import pytest
from model_server import Handler, completion, drip, hang, plain, serving, words_of

from gristmill.errors import UserError
from gristmill.store.answers import AnswerLog
from gristmill.store.store import Store
from gristmill_generate import ask as ask_module
from gristmill_generate.api_key import KeyRemover
from gristmill_generate.ask import Asker
from gristmill_generate.connection import FailedRequest, ModelAddress, read_reply, retry_after_s
from gristmill_generate.generate import judge, make_ask
from gristmill_generate.prompts import read_prompt
from gristmill_generate.settings import GenerateConfig, RequestLimits, ready_path

SOON = {"idle_s": 0.3, "total_s": 0.8, "patience_s": 0.4, "answer_bytes": 100_000}
BOMB = gzip.compress(b" " * 1_000_000)
PROMPT = read_prompt(ready_path("rephrase"))


def config_of(*servers, **more):
    addresses = [server if isinstance(server, str) else server.address for server in servers]
    return GenerateConfig(prompts=[ready_path("rephrase")], model="m", servers=addresses, **{"limits": SOON, **more})


def asks_of(config, texts):
    bodies = [json.dumps({"messages": [{"role": "user", "content": text}]}).encode() for text in texts]
    return [make_ask(body, 0, config) for body in bodies]


def ask(folder, config, texts):
    """The judged answers: (text, reason) by text."""
    log = AnswerLog(Store(str(folder)), "scope")
    try:
        asks = asks_of(config, texts)
        found = Asker(config, config.servers, log).ask(asks)
        return {text: judge(found[one.key][1], PROMPT.text_of)[:2] for text, one in zip(texts, asks, strict=True)}
    finally:
        log.close()


def say(body, handler: Handler):
    """Misbehaves for texts that name a misbehaviour."""
    text = body["messages"][-1]["content"]
    match text:
        case "hang":
            return hang(handler)
        case "drip":
            return drip(handler)
        case "garbage":
            return b"\x00\x01 garbage"
        case "large":
            return b'{"choices": "' + b"x" * 10_000_000
        case "utf8":
            return json.dumps(completion("x")).encode().replace(b'"x"', b'"\xff\xfe"')
        case "html":
            return b"<html><body>Welcome to the proxy</body></html>"
        case "rejected":
            return 400
        case "error":
            return 500
        case "lost":
            handler.close_connection = True
            return None
        case "cut":
            return handler.raw(b"Content-Length: 1000\r\n\r\n" + b'{"choices": [')
        case "cut chunks":
            return handler.raw(b"Transfer-Encoding: chunked\r\n\r\n" + b"20\r\n" + b'{"choices": [')
        case "chunk of -1":
            return handler.raw(b"Transfer-Encoding: chunked\r\n\r\n" + b"-1\r\n" + b"x" * 200_000)
        case "endless chunks":
            return handler.raw(
                b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + (b"x" * 0x4000 + b"\r\n4000\r\n") * 99
            )
        case "zip bomb":
            handler.reply(200, BOMB, Content_Encoding="gzip")
            return None
        case "refused":
            return completion(None, refusal="I cannot do that")
        case "filtered":
            return completion("x", "content_filter")
        case "empty":
            return completion("  ")
        case "aborted":
            return completion("half a sen", "abort")
        case "truncated":
            return completion("half a sen", "length")
    return words_of(body)


REASONS = {
    "hang": "server_timeout",
    "drip": "server_timeout",
    "garbage": "answer_not_json",
    "large": "answer_too_large",
    "utf8": "answer_not_utf8",
    "html": "answer_not_json",
    "aborted": "answer_unfinished",
    "rejected": "request_rejected",
    "error": "server_error",
    "lost": "connection_lost",
    "cut": "connection_lost",
    "cut chunks": "connection_lost",
    "chunk of -1": "connection_lost",
    "endless chunks": "answer_too_large",
    "zip bomb": "answer_not_utf8",
    "refused": "refused",
    "filtered": "refused",
    "empty": "empty_answer",
    "truncated": "answer_truncated",
}


def test_every_misbehaviour_becomes_a_reason_and_stops_nothing_else(tmp_path):
    """A request that fails alone, while the server answers others, is given up; a second run asks nothing again."""
    good = [f"document {number}" for number in range(30)]
    with serving(say) as server:
        config = config_of(server, concurrency=8)
        found = ask(tmp_path, config, [*REASONS, *good])
        assert {text: reason for text, (_, reason) in found.items() if reason} == REASONS
        assert all(found[text][0].startswith("Generated") for text in good)
        log = AnswerLog(Store(str(tmp_path)), "scope")
        asks = asks_of(config, [*REASONS, *good])
        stored = log.find([one.key for one in asks]) | log.find([one.fault_key for one in asks])
    assert len(stored) == len(asks)
    details = [answer.body["detail"] for answer in stored.values() if isinstance(answer.body, dict)]
    assert len(details) == 15
    assert all("times, the last time alone, while the server answered a control request" in one for one in details)
    assert sum("; 4 times, " in one for one in details) == 4  # lost connections, as often as patience_s allows
    assert sum("; 3 times, " in one for one in details) == 11
    assert sum("the answer was cut off" in one for one in details) == 4


def test_a_connection_that_is_lost_for_a_while_is_no_verdict(tmp_path, monkeypatch):
    """Answers that are cut short are requested again, with longer and longer pauses."""
    pauses, left = [], [b'{"choices": ['] * 5
    monkeypatch.setattr(ask_module.time, "sleep", pauses.append)

    def cut(body, handler):
        if body["messages"][-1]["content"] == "one" and left:
            return handler.raw(b"Content-Length: 1000\r\n\r\n" + left.pop())
        return words_of(body)

    with serving(cut) as server:
        found = ask(tmp_path, config_of(server, limits={}), ["one", "two"])
        assert server.texts.count("one") == 6
    assert [reason for _, reason in found.values()] == [None, None]
    assert [pause for pause in pauses if pause] == [0.25, 0.5, 1.0]


def test_an_answer_to_nothing_is_never_the_answer_to_the_next_request():
    """A server sends two answers to a request: the second one is not read."""

    def twice(body, handler):
        for _ in range(2):
            handler.reply(200, json.dumps(completion(body["text"])).encode())

    with serving(twice) as server:
        link = ModelAddress(server.address, GenerateConfig.model_fields["limits"].default, None)
        for text in ("one", "two", "three"):
            assert link.send(json.dumps({"text": text}).encode()).text == text


@pytest.mark.parametrize("fault", ["hang", "drip", "garbage", "html", "error", "large"])
def test_a_server_that_fails_for_everyone_gives_no_document_up(tmp_path, fault):
    """A fault outside never becomes a verdict: the run stops, and nothing is stored."""
    stops = pytest.raises(UserError, match=r"No server of m answers .* so the run stops\. 0 answers .* are stored")
    with serving(lambda body, handler: say({"messages": [{"content": fault}]}, handler)) as server, stops:
        ask(tmp_path, config_of(server, concurrency=2), ["one", "two", "three"])
    assert not list(tmp_path.glob("answers/*/*"))


def test_a_server_that_is_gone_stops_the_run_and_keeps_what_was_answered(tmp_path):
    with serving() as server:
        ask(tmp_path, config_of(server), ["one"])
    with pytest.raises(UserError, match=r"no connection \(Connection refused\)\), so the run stops\. 1 answer "):
        ask(tmp_path, config_of(server), ["two"])


def test_another_server_takes_over(tmp_path):
    """One of two servers is gone: everything is answered by the other."""
    with serving() as gone:
        pass
    with serving() as server:
        found = ask(tmp_path, config_of(gone, server, concurrency=3), [f"text {n}" for n in range(20)])
    assert all(reason is None for _, reason in found.values())
    assert len(server.requests) == 20


def test_a_busy_server_is_left_alone_as_long_as_it_says(tmp_path):
    """429 and 503 are answered by waiting; afterwards everything is answered, once."""
    seen = {}

    def busy(body, handler):
        text = body["messages"][-1]["content"]
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 1 and text in ("one", "two"):
            handler.reply(429 if text == "one" else 503, b"{}", Retry_After="0")
            return None
        return words_of(body)

    with serving(busy) as server:
        found = ask(tmp_path, config_of(server, concurrency=1), ["one", "two", "three"])
    assert all(reason is None for _, reason in found.values())
    assert seen == {"one": 2, "two": 2, "three": 1}
    assert retry_after_s("7", None) == 7
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT", None) == 0
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:27:00 GMT") == 60
    assert retry_after_s("Wed, 21 Oct 9999 07:28:00 GMT", None) == 1e6
    assert retry_after_s("soon", None) is retry_after_s("1e9", None) is retry_after_s("-5", None) is None


def test_a_server_that_asks_for_a_pause_of_years_stops_the_run(tmp_path):
    """Another server goes on without it."""

    def busy(body, handler):
        handler.reply(429, b"{}", Retry_After="1000000000")

    with serving(busy) as away, serving() as server:
        found = ask(tmp_path, config_of(away, server, concurrency=1), ["one", "two"])
        assert all(reason is None for _, reason in found.values())
        with pytest.raises(UserError, match=r"HTTP 429, and requests a pause of 1,000,000 s\), so the run stops"):
            ask(tmp_path, config_of(away, concurrency=1), ["three"])


def test_the_api_key_goes_to_the_server_only(tmp_path, monkeypatch):
    """Not to where it redirects, nor to a proxy of the environment."""
    monkeypatch.setenv("MODEL_KEY", "sk-secret-123")
    with serving() as other:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, other.address.removesuffix("/v1"))

        def away(body, handler):
            handler.reply(307, b"", Location=f"{other.address}/chat/completions")

        with serving(away) as server, pytest.raises(UserError, match=r"answers with HTTP 307 .* so the run stops"):
            ask(tmp_path, config_of(server, api_key_env="MODEL_KEY"), ["one"])
        with serving() as server:
            assert ask(tmp_path, config_of(server, api_key_env="MODEL_KEY"), ["one"])["one"][1] is None
        assert other.headers == []


def test_no_server_gets_more_requests_at_once_than_allowed(tmp_path):
    busy, most, lock = 0, 0, threading.Lock()
    meet = threading.Barrier(3, timeout=10)

    def count(body, handler):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        meet.wait()  # three requests are in progress at once, or this fails
        with lock:
            busy -= 1
        return words_of(body)

    with serving(count) as server:
        ask(tmp_path, config_of(server, concurrency=3, limits={}), [f"text {n}" for n in range(12)])
    assert most == 3


def test_a_budget_stops_the_run_and_a_larger_one_continues_it(tmp_path):
    """Every answer costs 15 tokens; what was paid for is not requested again."""
    texts = [f"text {n}" for n in range(40)]
    with serving() as server:
        spent = r"The budget of 150 tokens is spent, so the run stops with 30 requests .* 10 answers \(150 tokens\)"
        with pytest.raises(UserError, match=spent):
            ask(tmp_path, config_of(server, concurrency=1, budget={"tokens": 150}), texts)
        assert len(server.requests) == 10
        price = {"input": 1e6, "output": 2e6}
        left = [text for text in texts if text not in server.texts]
        with pytest.raises(UserError, match=r"The budget of 240 is spent, so the run stops with 28 requests"):
            ask(tmp_path, config_of(server, concurrency=1, budget={"money": 240}, price=price), left)
        assert len(server.requests) == 12


def test_the_message_about_a_budget_counts_answers_that_were_in_progress(tmp_path):
    """Requests that were sent are waited for, and their answers are stored."""
    with serving() as server:
        with pytest.raises(UserError, match="is spent") as error:
            ask(tmp_path, config_of(server, concurrency=6, budget={"tokens": 150}), [f"text {n}" for n in range(40)])
        sent = len(server.requests)
    assert 10 <= sent < 16
    assert f"with {40 - sent} requests of this part left. {sent} answers ({15 * sent} tokens)" in str(error.value)


@pytest.mark.parametrize("stated", [{}, {"total_tokens": 15}, 0, -5, 10.0, True, "10", 10**9, 10**30, None])
def test_tokens_that_a_server_does_not_state_properly_are_estimated(stated):
    """One for every four bytes of request and answer, so a budget always counts."""
    usage = stated if isinstance(stated, dict) else {"prompt_tokens": stated, "completion_tokens": stated}
    data = json.dumps({**completion("x" * 9), "usage": usage}).encode()
    assert read_reply(data, KeyRemover(None), b"y" * 401)[3:] == (101, 3)


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_a_server_that_refuses_everyone_stops_the_run_at_once(tmp_path, monkeypatch, status):
    """The message does not repeat the key, even if the server does."""
    monkeypatch.setenv("MODEL_KEY", "sk-secret-123")

    def refuse(body, handler):
        handler.reply(status, f"no: {handler.headers['Authorization']}".encode())

    with serving(refuse) as server:
        with pytest.raises(UserError, match="the run stops") as error:
            ask(tmp_path, config_of(server, api_key_env="MODEL_KEY", concurrency=1), ["one", "two"])
        assert len(server.requests) == 1
        assert server.headers[0]["Authorization"] == "Bearer sk-secret-123"
    assert "sk-secret" not in str(error.value)


def test_an_api_key_must_be_set(tmp_path, monkeypatch):
    monkeypatch.delenv("MODEL_KEY", raising=False)
    with serving(plain) as server, pytest.raises(UserError, match="MODEL_KEY, which api_key_env names, has no API key"):
        ask(tmp_path, config_of(server, api_key_env="MODEL_KEY"), ["one"])


@pytest.mark.parametrize(
    ("field", "value", "fact"),
    [
        ("servers", ["https://user:pass@host/v1"], "must not contain a password"),
        ("servers", ["host:8000"], "is not the address of a server"),
        ("servers", ["http://host:99999/v1"], "is not the address of a server"),
        ("servers", ["http://one..two/v1"], "is not the address of a server"),
        ("servers", ["http://one/\n"], "is not the address of a server"),
        ("servers", ["http://one two/v1"], "is not the address of a server"),
        ("servers", ["http://[::1/v1"], "is not the address of a server"),
        ("servers", ["http://host/v1 HTTP/1.1"], "has white space or letters that are not ASCII"),
        ("api_key_env", "sk-secret-123", "never the key itself"),
    ],
)
def test_settings_never_hold_a_secret(field, value, fact):
    """And the message about one that does not repeat it."""
    with pytest.raises(ValueError, match=fact) as error:
        GenerateConfig(prompts=["p"], model="m", **{"servers": ["http://host/v1"], field: value})
    assert "user:pass" not in error.value.errors(include_input=False, include_url=False).__repr__()


ANSWER = json.dumps(completion("said")).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ANSWER), ANSWER)


@pytest.mark.parametrize(
    "response",
    [
        b"100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 200 OK\r\ncontent-LENGTH:  %d \r\n\r\n%s" % (len(ANSWER), ANSWER),
        b"200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + CHUNKED,
        b"200\r\nConnection: close\r\n\r\n" + ANSWER,
    ],
)
def test_every_framing_of_a_response_is_read(response):
    """A length, chunks or the end of the connection end an answer."""

    def say(body, handler):
        handler.wfile.write(b"HTTP/1.1 " + response)
        handler.close_connection = True

    with serving(say) as server:
        assert ModelAddress(server.address, RequestLimits(**SOON), "sk-1").send(b'{"messages": []}').text == "said"
        sent = {"Authorization": "Bearer sk-1", "Accept-Encoding": "identity", "Content-Length": "16"}
        assert sent.items() <= server.headers[0].items()


@pytest.mark.parametrize(
    "response",
    [
        b"200 OK\r\nContent-Length: -1\r\n\r\n" + ANSWER,
        b"200 OK\r\nContent-Length: 5\r\nContent-Length: 3\r\n\r\n" + ANSWER,
        b"200 OK\r\nno colon sk-1\r\n\r\n" + ANSWER,
        b"200 OK\r\nX: " + b"sk-1" * 100_000 + b"\r\n\r\n" + ANSWER,
        b"999999999 OK\r\n\r\n" + ANSWER,
        b"\0",
    ],
)
def test_what_is_not_http_is_a_lost_connection(response):
    """The reason does not repeat what the server sent."""

    def say(body, handler):
        handler.wfile.write(b"HTTP/1.1 " + response)
        handler.close_connection = True

    with serving(say) as server, pytest.raises(FailedRequest) as failed:
        ModelAddress(server.address, RequestLimits(**SOON), "sk-1").send(b'{"messages": []}')
    assert str(failed.value) == "connection_lost: the answer was cut off, or is not HTTP"
