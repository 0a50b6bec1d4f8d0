"""A network on a bad day: asked again with patience, never taken for damage, and one message in the end."""

import json
import random
import sys
import threading

import pytest
from tests.objects.conftest import point_at
from tests.objects.faulty_proxy import FaultyProxy

from gristmill import objects
from gristmill.checked import InputChanged, content_of, open_checked
from gristmill.cli.main import main
from gristmill.errors import UserError
from gristmill.objects import patience, requests
from gristmill.objects.bucket import Bucket
from gristmill.objects.patience import TRIES, Unreachable, WaitStopped
from gristmill.places import place_of, system_of
from gristmill.store.store import CorruptPart, Store


@pytest.fixture
def waits(monkeypatch):
    """How long was waited between attempts; nobody does."""
    found = []
    monkeypatch.setattr(patience.HURRIED, "wait", found.append)
    return found


@pytest.fixture
def through(s3_server, use_s3, monkeypatch):
    """A bucket, and how to reach it through a proxy with faults."""
    uri = use_s3(s3_server.address)
    proxies = []

    def make(**faults):
        proxies.append(FaultyProxy(s3_server.server_port, **faults))
        point_at(monkeypatch, proxies[-1].address)
        return proxies[-1]

    make.uri = uri
    yield make
    for proxy in proxies:
        proxy.close()


def first_only(what):
    """The first request whose line holds a text."""
    seen = []

    def meant(line):
        found = what in line and not seen
        seen.extend([line] * found)
        return found

    return meant


@pytest.mark.parametrize("fault", ["busy", "cut"])
def test_a_store_that_is_busy_is_asked_again(through, waits, fault):
    """With waits drawn from zero to a limit that doubles: whoever was refused together does not come back together."""
    before = requests.counted()
    proxy = through(**{fault: 0.5}, seed=3)
    store = Store(f"{through.uri}/store")
    parts = [store.put_part(bytes([number]) * 100, "bin") for number in range(10)]
    assert [bytes(store.get_part(part)) for part in parts] == [bytes([number]) * 100 for number in range(10)]
    assert len(waits) == requests.since(before)["retries"] == proxy.met[fault] > 3
    assert len(set(waits)) == len(waits)
    limits = [patience.WAIT_SECONDS * 2 ** (1 + number) for number in range(TRIES)]
    assert all(0 <= wait <= min(limits[-1], patience.LONGEST_SECONDS) for wait in waits)


def test_the_wait_is_drawn_from_the_whole_stretch(monkeypatch):
    """Full jitter, and bounded."""
    drawn = []
    monkeypatch.setattr(patience.HURRIED, "wait", lambda _: None)
    monkeypatch.setattr(patience.random, "uniform", lambda low, high: drawn.append((low, high)) or high)
    pytest.importorskip("obstore")

    def busy():
        raise OSError("status code: 503 Slow Down")

    with pytest.raises(Unreachable):
        patience.patiently(busy, lambda fault: Unreachable(fault.text, ""), True, "s3://mill")
    assert drawn == [(0, min(20, 0.2 * 2**number)) for number in range(1, TRIES)]


def test_a_store_that_stays_busy_is_one_message(through, waits):
    """After so many attempts, and no part is suspected."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"bytes", "bin")
    through(busy=1.0)
    with pytest.raises(Unreachable, match=r"SlowDown.*after several attempts.*What is finished is kept"):
        Store(f"{through.uri}/store").get_part(part)
    assert len(waits) == TRIES - 1


def test_a_long_wait_is_told_once(through, waits):
    """While a run listens; what is over after some attempts is not worth a word."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"bytes", "bin")
    told = []
    through(busy=1.0)
    with patience.report_waits(lambda message, level: told.append(message)):
        for _ in range(2):
            with pytest.raises(Unreachable):
                Store(f"{through.uri}/store").get_part(part)
    assert len(told) == 1
    assert told[0].startswith(f"{through.uri} does not do what it is asked (SlowDown")
    through(busy=1.0, only=first_only("GET"))
    with patience.report_waits(lambda message, level: told.append(message)):
        assert bytes(Store(f"{through.uri}/store").get_part(part)) == b"bytes"
    assert len(told) == 1


def test_a_server_that_never_ends_its_answer_does_not_hold_up_who_stops(monkeypatch):
    """Nor the signal that says so: the thread that waits is not the one that is in the request."""
    monkeypatch.setattr(patience, "POLL_S", 0.01)
    let_go, asked = threading.Event(), threading.Event()

    def drips():
        asked.set()
        let_go.wait()

    stopper = threading.Thread(target=lambda: (asked.wait(), patience.HURRIED.set()))
    stopper.start()
    try:
        with pytest.raises(WaitStopped, match="not waited for"):
            patience.patiently(drips, lambda fault: Unreachable(fault.text, ""), True, "s3://mill")
    finally:
        stopper.join()
        patience.HURRIED.clear()
        let_go.set()


@pytest.mark.parametrize(
    ("environment", "bucket", "told"),
    [
        ({"AWS_ENDPOINT_URL": "localhost:9000"}, "mill", "AWS_ENDPOINT_URL is 'localhost:9000', and is no address."),
        ({"AWS_ENDPOINT_URL": ""}, "mill", "AWS_ENDPOINT_URL is '', and is no address."),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9/ a b"}, "mill", "is no address."),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:99999"}, "mill", "is no address."),
        ({"AWS_REGION": "us east"}, "mill", "AWS_REGION is 'us east', and is no region."),
        ({}, "buc ket", "'buc ket' is no name of a bucket."),
        ({}, "", "'' is no name of a bucket."),
    ],
)
def test_what_no_request_can_be_made_of_is_one_message(use_s3, s3_server, monkeypatch, environment, bucket, told):
    """obstore would panic."""
    use_s3(s3_server.address)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as error:
        Bucket("s3", bucket)
    assert told in str(error.value)
    assert "Nothing was run" in str(error.value)


def test_who_is_asked_to_stop_waits_no_more():
    """Ctrl-C while a store is away ends a run within seconds: what is asked once more is asked once."""
    tries = []

    def away():
        tries.append(1)
        raise OSError("connection reset")

    patience.HURRIED.set()
    try:
        with pytest.raises(Unreachable):
            patience.patiently(away, lambda fault: Unreachable(fault.text, ""), True, "s3://mill")
    finally:
        patience.HURRIED.clear()
    assert len(tries) == 1


def test_one_wrong_answer_deletes_nothing(through, s3_server):
    """Wrong bytes on the wire are no damage: asked for again, they are right, and nothing is taken away or remade."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(random.Random(1).randbytes(5000), "bin")
    store.write_json("tasks/x.json", {"some": "record"})
    (bucket,) = s3_server.buckets.values()
    there = dict(bucket)
    through(wrong=1.0, only=first_only("GET"))
    assert Store(f"{through.uri}/store").get_part(part).size == 5000
    proxy = through(wrong=1.0, only=first_only("GET"))
    assert Store(f"{through.uri}/store").read_record("tasks/x.json") == {"some": "record"}
    assert proxy.met == {"wrong": 1}
    assert bucket == there
    assert not any(method in ("DELETE", "POST") for method, _ in s3_server.asked)


def test_wrong_bytes_that_stay_are_damage(through, s3_server):
    """Read twice, wrong twice."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"some bytes", "bin")
    (bucket,) = s3_server.buckets.values()
    bucket[f"store/{part.name}"] = (b"same bytes", "0", 0)
    with pytest.raises(CorruptPart):
        store.get_part(part)
    assert len([path for method, path in s3_server.asked if method == "GET"]) == 2


def test_an_input_is_hashed_and_read_as_it_lies_there(through, s3_server):
    """A wrong answer is noticed by the store's own tag while it is hashed, and by the hash of its block later."""
    system, path = system_of(f"{through.uri}/in.jsonl")
    data = random.Random(1).randbytes(300_000)
    system.pipe_file(path, data)
    with place_of(f"{through.uri}/in.jsonl").open() as file:
        content = content_of(file)
    for _ in range(2):
        proxy = through(wrong=1.0, only=first_only("GET"))
        with place_of(f"{through.uri}/in.jsonl").open() as file:
            assert content_of(file) == content
        assert proxy.met == {"wrong": 1}
    proxy = through(wrong=1.0, only=first_only("GET"))
    with open_checked(place_of(f"{through.uri}/in.jsonl"), content, "in.jsonl") as file:
        assert file.read() == data
    assert proxy.met == {"wrong": 1}
    (bucket,) = s3_server.buckets.values()
    bucket["in.jsonl"] = (b"x" * len(data), "0", 0)
    with pytest.raises(InputChanged), open_checked(place_of(f"{through.uri}/in.jsonl"), content, "in.jsonl") as file:
        file.read()


def test_a_tag_that_is_no_md5_is_not_believed(through, s3_server):
    """Objects that a user's key encrypts have one: the same bytes twice are the object's."""
    (bucket,) = s3_server.buckets.values()
    bucket["in"] = (b"bytes", "0" * 32, 0)
    with place_of(f"{through.uri}/in").open() as file:
        assert content_of(file).size == 5


def typed(monkeypatch, capsys, *words):
    """The exit code and what was said."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("credentials", "no credentials for S3 were found. What is finished is kept. Set AWS_ACCESS_KEY_ID and"),
        ("wrong_key", "the store refuses it (InvalidAccessKeyId: The access key does not exist.)"),
        ("bucket", "there is no such bucket. Nothing was read or written. Create it, or correct the name"),
        ("address", "Check AWS_ENDPOINT_URL and AWS_REGION, and the network"),
        ("extra", "pip install 'gristmill[s3]'"),
        ("profile", "boto3"),
    ],
)
def test_what_cannot_be_used_is_one_message(s3_server, use_s3, monkeypatch, capsys, project, waits, fault, told):
    """Exit code 2, before any work, and after a few attempts at most."""
    uri = use_s3(s3_server.address)
    if fault == "credentials":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9/169.254.169.254")  # where no machine answers
    elif fault == "wrong_key":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    elif fault == "bucket":
        uri = "s3://nothing-here"
    elif fault == "address":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    elif fault == "extra":
        monkeypatch.setattr(objects, "is_installed", lambda: False)
    elif fault == "profile":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.setenv("AWS_PROFILE", "mine")
        monkeypatch.setitem(sys.modules, "boto3", None)
        monkeypatch.delitem(sys.modules, "obstore.auth.boto3", raising=False)
    code, said = typed(monkeypatch, capsys, "run", str(project.recipe), "--store", f"{uri}/store")
    assert (code, told in said, "Traceback" in said) == (2, True, False), said
    assert len(waits) < TRIES
    system_of(uri)[0].clear_instance_cache()
    code, said = typed(monkeypatch, capsys, "status", f"{uri}/store@x")
    assert (code, told in said) == (2, True), said


def test_prices_that_are_none_are_told(monkeypatch):
    """And those that are one are used."""
    cost = {"gets": 1000, "puts": 500, "lists": 500}
    assert requests.usd_of(cost) == pytest.approx(0.0054)
    monkeypatch.setenv(requests.PRICES, "1,2")
    assert requests.usd_of(cost) == pytest.approx(3)
    monkeypatch.setenv(requests.PRICES, json.dumps({}))
    with pytest.raises(objects.requests.UserError, match="two numbers"):
        requests.usd_of(cost)
