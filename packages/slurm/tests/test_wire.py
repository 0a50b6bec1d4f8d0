"""A message is trusted, and unpickled, only if its sender knows the secret."""

import asyncio
import os
import pickle
import secrets

import pytest

from gristmill_slurm import wire as wires
from gristmill_slurm.wire import Unproven, accept, answers

NAME = secrets.token_hex(16)
SECRET = secrets.token_bytes(32)


class Evil:
    """An object that fails the test if it is unpickled."""

    done: list[int] = []  # noqa: RUF012

    def __reduce__(self):
        return Evil.done.append, (1,)


DIALLED = []


async def dial(*about):
    """A connection that closes at the end of the block."""
    DIALLED.append(await wires.dial(*about))
    return DIALLED[-1]


def meet(there, here, secret=SECRET):
    """The results of both sides of a connection: `there` gets the wire of the listener, `here` gets the port."""

    async def main():
        result: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        async def listen(reader, writer):
            try:
                result.set_result(await there(await accept(reader, writer, NAME, secret)))
            except (Unproven, EOFError) as error:
                result.set_result(type(error))
            finally:
                writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            try:
                mine = await here(port)
            except (Unproven, EOFError) as error:
                mine = type(error)
            return await result if not result.done() else result.result(), mine
        finally:
            server.close()
            while DIALLED:
                DIALLED.pop().close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)
            for _ in range(2):  # transports close in the turn after `close`
                await asyncio.sleep(0)

    return asyncio.run(main())


async def hear(wire):
    return await wire.receive()


def test_messages_arrive_in_both_directions():
    async def there(wire):
        wire.send({"sacks": 3})
        return await wire.receive()

    async def here(port):
        wire = await dial("127.0.0.1", port, NAME, SECRET)
        wire.send(("flour", 1))
        return await wire.receive()

    assert meet(there, here) == (("flour", 1), {"sacks": 3})


def test_a_peer_without_the_secret_is_ignored():
    async def here(port):
        wire = await dial("127.0.0.1", port, NAME, secrets.token_bytes(32))
        wire.send(Evil())
        return await wire.receive()

    assert meet(hear, here) == (Unproven, Unproven)
    assert not Evil.done


def test_a_stranger_at_the_address_is_recognized():
    """Another run has the port now: it has another name and gets no message."""

    async def here(port):
        assert await answers("127.0.0.1", port, NAME)
        return await dial("127.0.0.1", port, secrets.token_hex(16), SECRET)

    assert meet(hear, here)[1] is Unproven


@pytest.mark.parametrize("fault", ["another message", "the same again", "a length without end"])
def test_a_message_that_was_changed_in_transit_ends_the_connection(fault):
    """An attacker between two machines can end a connection, and nothing else."""

    async def there(wire):
        assert await wire.receive() == "grain"
        return await wire.receive()

    async def here(port):
        wire = await dial("127.0.0.1", port, NAME, SECRET)
        written, write = [], wire._writer.write
        wire._writer.write = lambda data: (written.append(data), write(data))
        wire.send("grain")
        sent = written[0]
        evil = pickle.dumps(Evil())
        write(
            {
                "another message": len(evil).to_bytes(8, "big") + sent[8:40] + evil,
                "the same again": sent,
                "a length without end": b"\xff" * 8 + os.urandom(64),
            }[fault]
        )
        return await wire.receive()

    assert meet(there, here) == (EOFError, EOFError)
    assert not Evil.done


def test_a_run_that_is_gone_is_distinguished_from_one_that_is_busy():
    """Another process or none answers at its address; but a run that does not answer may be alive."""

    async def here(port):
        held = []
        server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
        silent = server.sockets[0].getsockname()[1]
        answered = [await answers("127.0.0.1", port, secrets.token_hex(16))]
        answered.append(await answers("127.0.0.1", silent, NAME, 0.01))
        server.close()
        for writer in held:
            writer.close()
        await server.wait_closed()
        return [*answered, await answers("127.0.0.1", silent, NAME)]

    assert meet(hear, here) == (Unproven, [False, None, False])
