"""Joins a Ray cluster as a driver, or explains in one message why that is not possible."""

import os
import signal
import socket
import threading
from contextlib import suppress
from typing import Any

from gristmill.errors import UserError
from gristmill.hints import option

CONNECT_S = 10.0
"""Seconds in which the head of a cluster must accept a connection, and answer."""
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes of an HTTP/2 client (RFC 9113, 3.4): Ray's gRPC server answers with a settings frame."""
_HEADER_BYTES, _SETTINGS = 9, 4
"""The length of a frame's header, whose fourth byte is the type of the frame, and the type of a settings frame."""


def connect(ray: Any, address: str | None) -> None:
    """Join a cluster as a driver; raises UserError if that fails. Ray's own messages go to its logs only."""
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    # A cluster that was killed leaves its address in a file, which `auto` reads.
    known = ray._private.utils.read_ray_address() if address == "auto" else address
    if (silent := _silent(known or "")) is not None:
        raise _no_cluster(address, silent)
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # otherwise a later call would start a new cluster
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
    """Authenticate with a token if this machine has one, as `ray start` does."""
    with suppress(ImportError):  # an earlier Ray
        from ray._private.authentication import authentication_token_setup

        logger = authentication_token_setup.logger
        before, logger.disabled = logger.disabled, True
        try:
            authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
        finally:
            logger.disabled = before


def _silent(address: str) -> str | None:
    """Why no Ray answers at HOST:PORT; None if one may, or if Ray must judge the address itself.

    Ray would retry for minutes, even if another kind of server listens there.
    """
    if "://" in address.removeprefix("ray://"):
        return "this is not the address of a Ray cluster; write HOST:PORT of its head, or ray://HOST:PORT"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":  # the server answers only after the exchange of certificates
                return None
            connection.sendall(_HELLO)
            frame = b""
            while len(frame) < _HEADER_BYTES and (more := connection.recv(_HEADER_BYTES - len(frame))):
                frame += more
    except TimeoutError:
        return f"the server there sent nothing for {CONNECT_S:.0f} s, so it is not Ray, or its machine is overloaded"
    except (OSError, OverflowError) as error:
        return str(error)
    is_settings = len(frame) == _HEADER_BYTES and frame[3] == _SETTINGS
    return None if is_settings else "the server there does not speak gRPC, so it is not Ray"


def _no_cluster(address: str, why: str) -> UserError:
    where = "of this machine" if address == "auto" else f"at {address}"
    return UserError(
        f"The Ray cluster {where} cannot be joined: {why.rstrip('.')}. Nothing was run. Start one with `ray start "
        "--head`, make this machine one of its nodes with `ray start --address HOST:6379`, or name another "
        f"{option('address')}. If the cluster requires a token (RAY_AUTH_MODE=token), this machine needs the same one: "
        "docs/ray.md."
    )
