"""Object stores: S3 and its like, and Google's, by one client (obstore) with retries and counts of our own.

    s3://bucket/key    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, AWS_PROFILE
    gs://bucket/key    GOOGLE_APPLICATION_CREDENTIALS

The store, sources and the loader all come here (`places.py`, `shardformat/locations.py`).
"""

import re

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
