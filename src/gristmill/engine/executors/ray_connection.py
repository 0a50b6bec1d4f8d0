"""Joining a Ray cluster as a driver, or one message that says why that cannot be."""

import os
import signal
import socket
import threading
from contextlib import suppress
from typing import Any

from gristmill.errors import UserError
from gristmill.hints import option

CONNECT_S = 10.0
"""Seconds in which the head of a cluster must take a connection, and answer."""
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins (RFC 9113, 3.4): gRPC, which Ray speaks, answers with a frame of settings."""
_HEADER_BYTES, _SETTINGS = 9, 4
"""Of a frame: the length of its header, whose fourth byte says its kind, and the kind."""


def imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UserError(
            f"{option('executor', 'ray')} needs Ray, which cannot be imported here ({error}). Nothing was run. Install "
            "it: pip install 'gristmill[ray]'"
        ) from None
    return ray


def connect(ray: Any, address: str | None) -> None:
    """Join a cluster as a driver; UserError where there is none. Ray's own messages are left in its logs."""
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    # A cluster that was killed leaves its address behind, where `auto` finds it.
    known = ray._private.utils.read_ray_address() if address == "auto" else address
    if (silent := _silent(known or "")) is not None:
        raise _no_cluster(address, silent)
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # a call after the end would start a cluster of its own
    _take_token()
    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # raylets' deaths, on standard output
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="CRITICAL")
    except Exception as error:
        raise _no_cluster(address, " ".join(str(error).split())[:600]) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _take_token() -> None:
    """Prove by a token who we are, if this machine has one, as `ray start` asks of others by itself."""
    with suppress(ImportError):  # an earlier Ray
        from ray._private.authentication import authentication_token_setup

        logger = authentication_token_setup.logger
        before, logger.disabled = logger.disabled, True
        try:
            authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        finally:
            logger.disabled = before


def _silent(address: str) -> str | None:
    """Why no Ray answers at HOST:PORT; None where one may, or another kind of address is Ray's to judge.

    Ray itself would try for minutes, also where a server of another kind listens.
    """
    if "://" in address.removeprefix("ray://"):
        return "that is an address of another kind; write HOST:PORT of its head, or ray://HOST:PORT"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":  # nothing is answered before certificates were shown
                return None
            connection.sendall(_HELLO)
            frame = b""
            while len(frame) < _HEADER_BYTES and (more := connection.recv(_HEADER_BYTES - len(frame))):
                frame += more
    except TimeoutError:
        return f"what listens there said nothing for {CONNECT_S:.0f} s, so it is not Ray, or its machine is overloaded"
    except (OSError, OverflowError) as error:
        return str(error)
    is_settings = len(frame) == _HEADER_BYTES and frame[3] == _SETTINGS
    return None if is_settings else "what listens there does not speak gRPC, so it is not Ray"


def _no_cluster(address: str, why: str) -> UserError:
    where = "of this machine" if address == "auto" else f"at {address}"
    return UserError(
        f"The Ray cluster {where} cannot be joined: {why.rstrip('.')}. Nothing was run. Start one with `ray start "
        "--head`, make this machine one of its nodes with `ray start --address HOST:6379`, or name another "
        f"{option('address')}. If it asks for a token (RAY_AUTH_MODE=token), this machine needs the same one: "
        "docs/ray.md."
    )
