"""moto's server, run by the Python it is installed for: ``s3_server.py -H HOST -p PORT``."""

from http.server import BaseHTTPRequestHandler
from typing import Any

from moto.server import main  # type: ignore[import-not-found]
from werkzeug.serving import WSGIRequestHandler  # type: ignore[import-not-found]


def _leave_it(_handler: Any) -> bool:
    return True


# A client that expects "100 Continue" gets it from Python's handler and from werkzeug's, and takes
# the second for the answer: S3A's uploads of whole files fail.
assert WSGIRequestHandler.handle_expect_100 is BaseHTTPRequestHandler.handle_expect_100
WSGIRequestHandler.handle_expect_100 = _leave_it

if __name__ == "__main__":
    main()
