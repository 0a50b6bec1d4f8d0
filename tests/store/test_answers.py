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


@pytest.mark.parametrize("uri", ["disk", "memory://answers-of-long-tasks"])
def test_a_long_task_keeps_few_offsets_in_memory(tmp_path, uri, monkeypatch):
    """A look-up completes a log of MOST_OPEN answers and begins another one; all are found, and count once as cost."""
    monkeypatch.setattr(answers, "MOST_OPEN", 4)
    store = Store(str(tmp_path) if uri == "disk" else uri)
    log = AnswerLog(store, "scope")
    for number in range(11):
        assert len(log.find([key(one) for one in range(20)])) == number
        log.add(key(number), number, 3, 2)
        log.flush()
        assert len(log._own) <= 4
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
    data = bytearray(path.read_bytes())
    flipped = 32 + flip % (len(data) - 32)
    data[flipped] ^= 1 << bit
    del data[max(32, len(data) - cut % len(data)) :]
    path.write_bytes(data)
    store = Store(str(folder))
    valid = len(AnswerLog(store, "scope").find(list(bodies)))
    for has_keys in (True, False):
        if not has_keys:
            path.with_suffix(".keys").unlink()
        found = AnswerLog(Store(str(folder)), "scope").find(list(bodies))
        assert {one: answer.body for one, answer in found.items()}.items() <= bodies.items()
        assert len(found) == valid
        # Every frame outside of the cut and the flipped bit is found; its token counts have no checksum.
        start, intact = 32, 0
        for body in bodies.values():
            end = start + 48 + len(f'"{body}"')
            intact += end <= len(data) and (not start <= flipped < end or 8 <= flipped - start < 16)
            start = end
        assert valid == intact
    name = str(path.relative_to(folder))
    assert list(check_answers(store)) == ([] if valid == 11 else [(name, f"has lost {11 - valid} of 11 answers")])
    drop_damaged(store, name)
    assert list(check_answers(store)) == []
    assert AnswerLog(store, "scope").find(list(bodies)).keys() == found.keys()


def test_damaged_keys_are_made_again(tmp_path):
    store = Store(str(tmp_path))
    log = AnswerLog(store, "scope")
    log.add(key(1), "one", 1, 1)
    log.close()
    path = log_of(tmp_path).with_suffix(".keys")
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert list(check_answers(store)) == [(str(path.relative_to(tmp_path)), "is damaged")]
    assert AnswerLog(store, "scope").find([key(1)])[key(1)].body == "one"


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


def test_a_log_that_grows_after_its_keys_were_written_loses_nothing(tmp_path):
    """To another machine, whose clock is hours ahead, the writer seems dead. Then the writer is killed."""
    store = Store(str(tmp_path))
    log = AnswerLog(store, "scope")
    log.add(key(1), "one", 1, 1)
    path = log_of(tmp_path)
    path.with_suffix(".keys").write_bytes(answers._pack_keys(answers._index_of(path.read_bytes())))
    log.add(key(2), "two", 1, 1)
    log.add(key(3), "three", 1, 1)
    found = AnswerLog(store, "scope").find([key(1), key(2), key(3)])
    assert [answer.body for answer in found.values()] == ["one", "two", "three"]


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
