"""Messages between the process that runs a recipe and jobs on other machines: pickles, after both prove a secret.

The listener sends its name (not secret) and a random number. The dialler answers with its own number and proves that it
has the secret; then the listener proves the same. Both proofs include both numbers, so they cannot be replayed. Every
later message has a MAC with a key derived from all of this, and its sequence number: nothing is unpickled that the
other side did not send in this order. Messages are not encrypted; they contain no documents.
"""

import asyncio
import hmac
import os
import pickle
import struct
from typing import Any

HELLO = b"gristmill 1 "
NAME_BYTES = 32
"""Length of the listener's name, in hexadecimal."""
_NONCE = _MAC = 32
MOST_BYTES = 1 << 30
"""Longer messages are rejected."""
PATIENCE_S = 20.0
"""Seconds that the other side has to prove itself."""


class Unproven(Exception):
    """The other side is another process, or does not know the secret."""


class Wire:
    """One connection. Raises EOFError if the other side is gone or a message is not authentic."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._key = b""
        self._mine = self._theirs = b""
        self._sent = self._received = 0

    def send(self, message: Any) -> None:
        """Send a message. A loss shows when the connection ends."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._writer.write(struct.pack(">Q", len(data)) + self._mac(self._mine, self._sent, data) + data)
        self._sent += 1

    async def receive(self) -> Any:
        try:
            (length,) = struct.unpack(">Q", await self._reader.readexactly(8))
            if length > MOST_BYTES:
                raise EOFError
            mac = await self._reader.readexactly(_MAC)
            data = await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            raise EOFError from None
        if not hmac.compare_digest(mac, self._mac(self._theirs, self._received, data)):
            raise EOFError
        self._received += 1
        return pickle.loads(data)

    async def flush(self) -> None:
        """Wait until the system has all sent messages, or the connection has ended."""
        try:
            await self._writer.drain()
        except OSError:
            return

    def close(self) -> None:
        self._writer.close()

    def _mac(self, side: bytes, number: int, data: bytes) -> bytes:
        return hmac.digest(self._key, side + struct.pack(">QQ", number, len(data)) + data, "sha256")

    async def _prove(self, secret: bytes, numbers: bytes, mine: bytes, theirs: bytes, first: bool) -> None:
        for turn in (first, not first):
            if turn:
                self._writer.write(hmac.digest(secret, b"proof " + mine + numbers, "sha256"))
            else:
                proof = await self._reader.readexactly(_MAC)
                if not hmac.compare_digest(proof, hmac.digest(secret, b"proof " + theirs + numbers, "sha256")):
                    raise Unproven
        self._key = hmac.digest(secret, b"session " + numbers, "sha256")
        self._mine, self._theirs = mine, theirs


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, secret: bytes) -> Wire:
    """A connection from a process that knows the secret. Raises Unproven."""
    wire, number = Wire(reader, writer), os.urandom(_NONCE)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(HELLO + name.encode() + number)
            numbers = number + await reader.readexactly(_NONCE)
            await wire._prove(secret, numbers, b"listener", b"dialler", False)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        raise Unproven from None
    return wire


async def dial(host: str, port: int, name: str, secret: bytes) -> Wire:
    """A connection to the named process, which knows the secret. Raises Unproven, or OSError if nothing answers."""
    reader, writer, number = await _reach(host, port, name)
    wire, mine = Wire(reader, writer), os.urandom(_NONCE)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(mine)
            await wire._prove(secret, number + mine, b"dialler", b"listener", True)
    except BaseException as error:
        writer.close()
        if isinstance(error, asyncio.IncompleteReadError | TimeoutError):
            raise Unproven from None
        raise
    return wire


async def answers(host: str, port: int, name: str, patience_s: float = 5.0) -> bool | None:
    """Whether the named process listens there; None if nothing answers, since it may be busy or cut off."""
    try:
        _, writer, _ = await _reach(host, port, name, patience_s)
    except (ConnectionError, Unproven):
        return False
    except OSError:
        return None
    writer.close()
    return True


async def _reach(
    host: str, port: int, name: str, patience_s: float = PATIENCE_S
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    async with asyncio.timeout(patience_s):  # TimeoutError is an OSError
        reader, writer = await asyncio.open_connection(host, port)
        try:
            said = await reader.readexactly(len(HELLO) + NAME_BYTES + _NONCE)
            if said[:-_NONCE] != HELLO + name.encode():
                raise Unproven
        except BaseException as error:
            writer.close()
            if isinstance(error, asyncio.IncompleteReadError):
                raise Unproven from None
            raise
    return reader, writer, said[-_NONCE:]
