"""Messages between the process that runs a recipe and jobs on other machines: pickles, once both sides know a secret.

Who listens says who it is (a name that is no secret) and a random number. Who dials answers with one of its own and
proves that it has the secret; the other proves the same. Both proofs hold both numbers, so neither can be played again.
Every message after that carries a MAC under a key made of all of it, with its place in the order: nothing that was not
sent by the other side, in this order, is ever unpickled. What is said is not encrypted: documents do not travel here.
"""

import asyncio
import hmac
import os
import pickle
import struct
from typing import Any

HELLO = b"gristmill 1 "
NAME_BYTES = 32
"""Of the name of who listens, in hexadecimal."""
_NONCE = _MAC = 32
MOST_BYTES = 1 << 30
"""A message that says it is longer is none."""
PATIENCE_S = 20.0
"""Seconds that the other side has to prove itself."""


class Unproven(Exception):
    """Who answered is not who was meant, or does not know the secret."""


class Wire:
    """One connection. EOFError where the other side is gone or cannot be believed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._key = b""
        self._mine = self._theirs = b""
        self._sent = self._received = 0

    def send(self, message: Any) -> None:
        """Put a message on its way. What is lost on it shows when the connection ends."""
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
        """Wait until what was sent is with the system, or the connection has ended."""
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
    """A connection from somebody who knows the secret. Raises Unproven."""
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
    """A connection to who has that name and knows the secret. Raises Unproven, or OSError where nobody answers."""
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
    """Whether somebody of that name listens there; None where nobody answers, who may be busy or cut off."""
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
