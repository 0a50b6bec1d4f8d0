"""Who may read the pages: only the person at this machine.

Any web page can make a browser send requests to 127.0.0.1, and a foreign name can resolve to it. So every request must
name this address as its Host, must not come from a foreign page, and must have the secret: first as a token in the
address that the command prints, then as a cookie. The content-security policy allows our own files only, so even
markup that got into a page could not run, load, send or frame anything.
"""

import secrets
import traceback
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill.log import WARNING, Log

LOG = Log("explore")
HOSTS = ("127.0.0.1", "localhost")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SAFE_METHODS = ("GET", "HEAD")
OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site: our own pages, and addresses that a person typed."""
TOKEN = "token"
"""The name of the token in an address."""


class LocalOnly:
    """ASGI middleware that refuses foreign requests and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in HOSTS}
        self._cookie = f"gristmill-{port}"  # all ports of a host share its cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no page uses a websocket

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await (self._answer(scope) or self._app)(scope, receive, send_with_headers)
        except ClientDisconnect:
            return  # the browser left before its request was complete: nobody waits for an answer
        except Exception as fault:  # a bug, or a damaged store: the page says so, and the terminal has the details
            LOG("".join(traceback.format_exception(fault)), WARNING)
            answer = PlainTextResponse(f"This page failed ({type(fault).__name__}). The terminal has the details.", 500)
            await answer(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """The answer to a request that no page may see; None if a page may."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return _refusal(403, f"Host is not {' or '.join(sorted(self._hosts))}.")
        is_own = headers.get("origin") == f"http://{host}"
        if "origin" in headers and not is_own:
            return _refusal(403, "Origin is another site.")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            return _refusal(403, "The request comes from another site. Paste the address into the address bar.")
        if scope["method"] not in SAFE_METHODS and not is_own:
            return _refusal(403, "Origin is missing.")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if TOKEN in query:
            if scope["method"] != "GET" or not self._is_token(query[TOKEN][0]):
                return _refusal(403, "The token is not that of this process. Open the address that it printed.")
            response = RedirectResponse(scope["path"] if scope["path"].startswith("/") else "/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return response
        # A program, such as Prometheus, sends the token as a header. No foreign page can add it unasked.
        given = headers.get("authorization", "").removeprefix("Bearer ")
        given = given or cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        if not self._is_token(given):
            return _refusal(403, "There is no token. Open the address that the command printed, with its token.")
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())


def _refusal(status: int, why: str) -> Response:
    return PlainTextResponse(f"Refused. {why}\n", status)
