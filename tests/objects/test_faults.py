"""A bad network: requests are retried, faults never count as damage, and the last failure is one clear message."""

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
from gristmill.install_command import install_extra
from gristmill.objects import patience, requests
from gristmill.objects.bucket import Bucket
from gristmill.objects.patience import TRIES, Unreachable, WaitStopped
from gristmill.places import place_of, system_of
from gristmill.store.store import CorruptPart, Store


@pytest.fixture
def waits(monkeypatch):
    """The waits between attempts, recorded instead of slept."""
    found = []
    monkeypatch.setattr(patience.HURRIED, "wait", found.append)
    return found


@pytest.fixture
def through(s3_server, use_s3, monkeypatch):
    """A bucket that is reached through a proxy with faults."""
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
    """A filter for the first request whose line contains a text."""
    matched = []

    def is_first(line):
        found = what in line and not matched
        matched.extend([line] * found)
        return found

    return is_first


@pytest.mark.parametrize("fault", ["busy", "cut"])
def test_requests_to_a_busy_store_are_retried(through, waits, fault):
    """With random waits between zero and a limit that doubles, so that clients that failed together retry apart."""
    before = requests.counted()
    proxy = through(**{fault: 0.5}, seed=3)
    store = Store(f"{through.uri}/store")
    parts = [store.put_part(bytes([number]) * 100, "bin") for number in range(10)]
    assert [bytes(store.get_part(part)) for part in parts] == [bytes([number]) * 100 for number in range(10)]
    assert len(waits) == requests.since(before)["retries"] == proxy.met[fault] > 3
    assert len(set(waits)) == len(waits)
    limits = [patience.WAIT_SECONDS * 2 ** (1 + number) for number in range(TRIES)]
    assert all(0 <= wait <= min(limits[-1], patience.LONGEST_SECONDS) for wait in waits)


def test_waits_are_drawn_and_outlast_half_a_minute(monkeypatch):
    """From half of a limit on, so an unlucky request waits for a store that is away, too."""
    drawn = []
    monkeypatch.setattr(patience.HURRIED, "wait", lambda _: None)
    monkeypatch.setattr(patience.random, "uniform", lambda low, high: drawn.append((low, high)) or high)
    pytest.importorskip("obstore")

    def busy():
        raise OSError("status code: 503 Slow Down")

    with pytest.raises(Unreachable):
        patience.patiently(busy, lambda fault: Unreachable(fault.text, ""), True, "s3://mill")
    limits = [min(20, 0.2 * 2**number) for number in range(1, TRIES)]
    assert drawn == [(limit / 2, limit) for limit in limits]
    assert sum(limits) / 2 > 40


def test_a_store_that_stays_busy_gives_one_message(through, waits):
    """After the last attempt, and without blaming the part."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"bytes", "bin")
    through(busy=1.0)
    with pytest.raises(Unreachable, match=r"SlowDown.*after several attempts.*Finished work is kept"):
        Store(f"{through.uri}/store").get_part(part)
    assert len(waits) == TRIES - 1


def test_a_long_wait_is_reported_once(through, waits):
    """A run gets one message; a fault that passes after a few attempts is not reported."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"bytes", "bin")
    messages = []
    through(busy=1.0)
    with patience.report_waits(lambda message, level: messages.append(message)):
        for _ in range(2):
            with pytest.raises(Unreachable):
                Store(f"{through.uri}/store").get_part(part)
    assert len(messages) == 1
    assert messages[0].startswith(f"requests to {through.uri} fail (SlowDown")
    through(busy=1.0, only=first_only("GET"))
    with patience.report_waits(lambda message, level: messages.append(message)):
        assert bytes(Store(f"{through.uri}/store").get_part(part)) == b"bytes"
    assert len(messages) == 1


def test_a_server_that_never_ends_its_answer_does_not_delay_a_stop(monkeypatch):
    """Signals still work, because the waiting thread is not the one that sends the request."""
    monkeypatch.setattr(patience, "POLL_S", 0.01)
    release, started = threading.Event(), threading.Event()

    def drips():
        started.set()
        release.wait()

    stopper = threading.Thread(target=lambda: (started.wait(), patience.HURRIED.set()))
    stopper.start()
    try:
        with pytest.raises(WaitStopped, match="was abandoned"):
            patience.patiently(drips, lambda fault: Unreachable(fault.text, ""), True, "s3://mill")
    finally:
        stopper.join()
        patience.HURRIED.clear()
        release.set()


@pytest.mark.parametrize(
    ("environment", "bucket", "expected"),
    [
        ({"AWS_ENDPOINT_URL": "localhost:9000"}, "mill", "AWS_ENDPOINT_URL is 'localhost:9000', which is not a URL."),
        ({"AWS_ENDPOINT_URL": ""}, "mill", "AWS_ENDPOINT_URL is '', which is not a URL."),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9/ a b"}, "mill", "is not a URL."),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:99999"}, "mill", "is not a URL."),
        ({"AWS_REGION": "us east"}, "mill", "AWS_REGION is 'us east', which is not a region."),
        ({}, "buc ket", "'buc ket' is not a valid bucket name."),
        ({}, "", "'' is not a valid bucket name."),
    ],
)
def test_an_invalid_bucket_or_environment_gives_one_message(
    use_s3, s3_server, monkeypatch, environment, bucket, expected
):
    """Without the check, obstore would panic."""
    use_s3(s3_server.address)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as error:
        Bucket("s3", bucket)
    assert expected in str(error.value)
    assert "Nothing was run" in str(error.value)


def test_a_stopped_process_does_not_retry():
    """Ctrl-C while a store is unreachable ends a run within seconds: there are no more retries."""
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
    """Wrong bytes from the network are not damage: a second read is right, and nothing is removed or made again."""
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
    assert not any(method in ("DELETE", "POST") for method, _ in s3_server.requests)


def test_wrong_bytes_that_stay_are_damage(through, s3_server):
    """Two reads with wrong bytes mean damage."""
    store = Store(f"{through.uri}/store")
    part = store.put_part(b"some bytes", "bin")
    (bucket,) = s3_server.buckets.values()
    bucket[f"store/{part.name}"] = (b"same bytes", "0", 0)
    with pytest.raises(CorruptPart):
        store.get_part(part)
    assert len([path for method, path in s3_server.requests if method == "GET"]) == 2


def test_an_input_is_hashed_and_read_as_it_is_stored(through, s3_server):
    """Wrong bytes are detected by the ETag during hashing, and by the hash of the block later."""
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


def test_a_tag_that_is_not_an_md5_is_not_trusted(through, s3_server):
    """Objects encrypted with a customer's key have such a tag: if two reads agree, the bytes are right."""
    (bucket,) = s3_server.buckets.values()
    bucket["in"] = (b"bytes", "0" * 32, 0)
    with place_of(f"{through.uri}/in").open() as file:
        assert content_of(file).size == 5


def test_an_object_that_ends_early_is_refused(through, s3_server):
    """The size that the store states counts: a proxy may cut every answer."""
    (bucket,) = s3_server.buckets.values()
    bucket["in"] = (b"twelve bytes", "0", 0)
    with place_of(f"{through.uri}/in").open() as file:
        bucket["in"] = (b"twelve", "0", 0)
        with pytest.raises(UserError, match="in ended after 6 of the 12 bytes that its store states"):
            content_of(file)


def test_a_worker_that_starts_while_its_store_is_away_waits(s3_server, use_s3, waits, monkeypatch):
    """The store has answered the run that started the worker, so its address is right."""
    uri = use_s3(s3_server.address)
    point_at(monkeypatch, "http://127.0.0.1:9")
    monkeypatch.setattr(patience, "FIRST_TRIES", 2)
    for expected, in_run in ((1, False), (TRIES - 1, True)):
        waits.clear()
        (patience.IN_RUN.set if in_run else patience.IN_RUN.clear)()
        try:
            with pytest.raises(Unreachable):
                Bucket(*uri.split("://")).get("a")
        finally:
            patience.IN_RUN.clear()
        assert len(waits) == expected


def typed(monkeypatch, capsys, *words):
    """Run a command; return its exit code and its messages."""
    monkeypatch.setattr(sys, "argv", ["gristmill", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("credentials", "no credentials for S3 were found. Finished work is kept. Set AWS_ACCESS_KEY_ID and"),
        ("wrong_key", "permission denied (InvalidAccessKeyId: The access key does not exist.)"),
        ("bucket", "the bucket does not exist. Nothing was read or written. Create it or correct the name"),
        ("address", "Check AWS_ENDPOINT_URL and AWS_REGION, and the network"),
        ("extra", install_extra("s3")),
        ("profile", "boto3"),
    ],
)
def test_an_unusable_store_gives_one_message(s3_server, use_s3, monkeypatch, capsys, project, waits, fault, expected):
    """Exit code 2, before any work, after a few attempts at most."""
    uri = use_s3(s3_server.address)
    if fault == "credentials":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9/169.254.169.254")  # nothing listens there
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
    assert (code, expected in said, "Traceback" in said) == (2, True, False), said
    assert len(waits) < TRIES
    system_of(uri)[0].clear_instance_cache()
    code, said = typed(monkeypatch, capsys, "status", f"{uri}/store@x")
    assert (code, expected in said) == (2, True), said


def test_invalid_prices_are_an_error(monkeypatch):
    """Valid prices are used."""
    cost = {"gets": 1000, "puts": 500, "lists": 500}
    assert requests.usd_of(cost) == pytest.approx(0.0054)
    monkeypatch.setenv(requests.PRICES, "1,2")
    assert requests.usd_of(cost) == pytest.approx(3)
    monkeypatch.setenv(requests.PRICES, json.dumps({}))
    with pytest.raises(objects.requests.UserError, match="two numbers"):
        requests.usd_of(cost)
