"""Object stores: S3, compatible stores and Google Cloud Storage, through obstore, with our own retries and counters.

    s3://bucket/key    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_PROFILE
    gs://bucket/key    GOOGLE_APPLICATION_CREDENTIALS

The store, sources and the loader all use this package (`places.py`, `shardformat/locations.py`).
"""

import os
import re
from urllib.parse import urlsplit

_SCHEME = re.compile(r"(?:s3a?|gs|gcs)://")


def is_object(location: str) -> bool:
    """Whether a location is in an object store that this client supports."""
    return _SCHEME.match(location) is not None


def is_installed() -> bool:
    try:
        import obstore  # noqa: F401
    except ImportError:
        return False
    return True


def unfit(scheme: str, bucket: str) -> str | None:
    """A fault in a bucket name or the environment, with the fix; None if there is none. The client would panic."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", bucket):
        return f"{bucket!r} is not a valid bucket name. Write {scheme}://BUCKET/PREFIX."
    if scheme != "s3":
        return None
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        given = os.environ.get(name)
        if given is not None and not _is_address(given):
            return (
                f"{name} is {given!r}, which is not a URL. Write it as http://HOST:PORT or https://HOST, or unset it."
            )
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        given = os.environ.get(name)
        if given is not None and not re.fullmatch(r"[A-Za-z0-9-]+", given):
            return f"{name} is {given!r}, which is not a region. Set one such as us-east-1, or unset it."
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
