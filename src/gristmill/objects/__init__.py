"""Object stores: S3 and its like, and Google's, by one client (obstore) with retries and counts of our own.

    s3://bucket/key    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_PROFILE
    gs://bucket/key    GOOGLE_APPLICATION_CREDENTIALS

The store, sources and the loader all come here (`places.py`, `shardformat/locations.py`).
"""

import os
import re
from urllib.parse import urlsplit

_SCHEME = re.compile(r"(?:s3a?|gs|gcs)://")
EXTRA = "pip install 'gristmill[s3]'"


def is_object(location: str) -> bool:
    """Whether a location lies in an object store that this client speaks to."""
    return _SCHEME.match(location) is not None


def is_installed() -> bool:
    try:
        import obstore  # noqa: F401
    except ImportError:
        return False
    return True


def unfit(scheme: str, bucket: str) -> str | None:
    """What no request could be made of, in a name or in the environment, with the fix; None where all may be right.
    The client takes it for a bug of its own program, and breaks off.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", bucket):
        return f"{bucket!r} is no name of a bucket. Write {scheme}://BUCKET/PREFIX."
    if scheme != "s3":
        return None
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        given = os.environ.get(name)
        if given is not None and not _is_address(given):
            return f"{name} is {given!r}, and is no address. Write it as http://HOST:PORT or https://HOST, or unset it."
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        given = os.environ.get(name)
        if given is not None and not re.fullmatch(r"[A-Za-z0-9-]+", given):
            return f"{name} is {given!r}, and is no region. Write one such as us-east-1, or unset it."
    return None


def _is_address(text: str) -> bool:
    try:
        found = urlsplit(text)
        return (
            found.scheme in ("http", "https")
            and bool(found.hostname)
            and not re.search(r"[^!-~]", text)
            and (found.port is None or found.port > 0)
        )
    except ValueError:
        return False
