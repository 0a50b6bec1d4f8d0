"""Stored answers: each is there once it is added, whatever happens afterwards, and is checked when it is used."""

import errno
import os
import subprocess
import sys
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.store import answers
from gristmill.store.answers import AnswerLog, Usage, check_answers, drop_damaged, usage_in
from gristmill.store.store import Store


def key(name):
    return blake2b(str(name).encode(), digest_size=16).digest()


def log_of(folder):
    (path,) = folder.glob("answers/scope/*.log")
    return path


@pytest.mark.parametrize("uri", ["disk", "memory://answers-of-tests"])
def test_answers_are_found_before_and_after_the_log_is_closed(tmp_path, uri):
    """On a disk and in an object store, by the same worker and by another."""
    store = Store(str(tmp_path) if uri == "disk" else uri)
    log = AnswerLog(store, "scope")
    for number in range(5):
        log.add(key(number), [f"text {number}", "stop", None], 3, 2)
        log.flush()
    wanted = [key(number) for number in range(7)]
    for reader in (log, AnswerLog(store, "scope")):
        found = reader.find(wanted)
        assert {one: answer.body[0] for one, answer in found.items()} == {
            key(number): f"text {number}" for number in range(5)
        }
        assert reader.usage(0) == Usage(15, 10, 5)
    log.close()
    assert AnswerLog(store, "scope").find(wanted).keys() == found.keys()
    assert AnswerLog(store, "other").find(wanted) == {}
    assert usage_in(store) == Usage(15, 10, 5)
    assert sorted(name.rpartition(".")[2] for name, _ in store.list_files("answers")) == ["keys", "log"]


def test_a_long_task_in_an_object_store_keeps_few_answers_in_memory(monkeypatch):
    """A look-up completes a log of MOST_FRAMES answers and begins another one; all are found, once as cost."""
    monkeypatch.setattr(answers, "MOST_FRAMES", 4)
    store = Store("memory://answers-of-long-tasks")
    log = AnswerLog(store, "scope")
    for number in range(11):
        assert len(log.find([key(one) for one in range(20)])) == number
        log.add(key(number), number, 3, 2)
        log.flush()
        assert len(log._frames) <= 4
        assert log.usage() == Usage(3 * number + 3, 2 * number + 2, number + 1)
    log.close()
    assert sorted(name.rpartition(".")[2] for name, _ in store.list_files("answers")) == ["keys"] * 3 + ["log"] * 3
    assert usage_in(store) == Usage(33, 22, 11)


def test_a_killed_process_loses_no_answer(tmp_path):
    """The process dies by SIGKILL right after the last `add`, without closing anything."""
    code = (
        "import os, signal, sys\nfrom gristmill.store.answers import AnswerLog\n"
        "from gristmill.store.store import Store\n"
        "log = AnswerLog(Store(sys.argv[1]), 'scope')\n"
        "for n in range(20): log.add(n.to_bytes(16, 'big'), n, 1, 1)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment).returncode == -9
    log = AnswerLog(Store(str(tmp_path)), "scope")
    found = log.find([n.to_bytes(16, "big") for n in range(20)])
    assert sorted(answer.body for answer in found.values()) == list(range(20))
    assert log.usage(0) == Usage(20, 20, 20)


@settings(max_examples=60)
@given(cut=st.integers(0, 2000), flip=st.integers(0, 2000), bit=st.integers(0, 7))
def test_damaged_frames_count_as_absent(tmp_path_factory, cut, flip, bit):
    """A log that is cut short, or has a wrong bit, gives only answers that were stored, and all undamaged ones."""
    folder = tmp_path_factory.mktemp("store")
    log = AnswerLog(Store(str(folder)), "scope")
    bodies = {key(number): "word " * number for number in range(1, 12)}
    for one, body in bodies.items():
        log.add(one, body, 1, 1)
    log.close()
    path = log_of(folder)
    for file, is_cut in ((path, True), (path.with_suffix(".keys"), False)):
        data = bytearray(file.read_bytes())
        data[flip % len(data)] ^= 1 << bit
        if is_cut:
            del data[max(1, len(data) - cut % len(data)) :]
        file.write_bytes(data)
    store = Store(str(folder))
    found = AnswerLog(store, "scope").find(list(bodies))
    assert {one: answer.body for one, answer in found.items()}.items() <= bodies.items()
    name = str(path.relative_to(folder))
    lost = 11 - len(found)
    assert list(check_answers(store)) == ([(name, f"has lost {lost} of 11 answers")] if lost else [])
    drop_damaged(store, name)
    assert list(check_answers(store)) == []
    assert AnswerLog(store, "scope").find(list(bodies)).keys() == found.keys()


def test_one_wrong_bit_of_an_answer_costs_that_answer_alone(tmp_path):
    """All others are found; the entries say where they are."""
    log = AnswerLog(Store(str(tmp_path)), "scope")
    for number in range(9):
        log.add(key(number), f"text {number}", 1, 1)
    log.close()
    path = log_of(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert len(AnswerLog(Store(str(tmp_path)), "scope").find([key(number) for number in range(9)])) == 8


def test_an_answer_without_an_entry_is_absent(tmp_path):
    """Its writer was killed, or is writing: neither it nor half an entry is damage."""
    store = Store(str(tmp_path))
    log = AnswerLog(store, "scope")
    log.add(key(1), "one", 1, 1)
    log.add(key(2), "two", 1, 1)
    path = log_of(tmp_path).with_suffix(".keys")
    path.write_bytes(path.read_bytes()[:100])
    found = AnswerLog(store, "scope").find([key(1), key(2)])
    assert [answer.body for answer in found.values()] == ["one"]
    assert list(check_answers(store)) == []
    assert usage_in(store) == Usage(1, 1, 1)


def test_of_two_answers_every_reader_takes_the_same(tmp_path):
    """Two workers asked for the same thing at the same moment."""
    store = Store(str(tmp_path))
    logs = [AnswerLog(store, "scope") for _ in range(2)]
    for log, text in zip(logs, ("one", "two"), strict=True):
        log.add(key(1), text, 1, 1)
    before = {log.find([key(1)])[key(1)] for log in logs}
    for log in logs:
        log.close()
    assert before == {AnswerLog(store, "scope").find([key(1)])[key(1)]}


def test_an_answer_that_a_full_disk_cuts_short_harms_no_other(tmp_path, monkeypatch):
    """It is one message; answers before and after it are found, and the log has no damage."""
    store = Store(str(tmp_path))
    log = AnswerLog(store, "scope")
    log.add(key(1), "one", 1, 1)
    real = os.pwrite
    limit = log_of(tmp_path).stat().st_size + 20

    def full(file, data, at):
        if at >= limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[: limit - at], at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(UserError, match="No space left on device"):
            log.add(key(2), "two", 1, 1)
    log.add(key(3), "three", 1, 1)
    assert list(check_answers(store)) == []
    assert log.usage(0) == Usage(2, 2, 2)
    for reader in (log, AnswerLog(store, "scope")):
        assert sorted(answer.body for answer in reader.find([key(1), key(2), key(3)]).values()) == ["one", "three"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        limit = 0
        with pytest.raises(UserError, match="No space left on device"):
            AnswerLog(store, "other").add(key(1), "one", 1, 1)
