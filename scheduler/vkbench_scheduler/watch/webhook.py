"""A signed webhook, as standardwebhooks.com has it: receivers may use its libraries to verify."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from vkbench_scheduler.errors import AlertFailed

TIMEOUT_SECONDS = 10.0
PREFIX = "whsec_"  # of a secret that is base64; any other one is taken letter by letter


def post(url: str, secret: str, message: str, body: bytes, timestamp: int) -> None:
    """Send a body, JSON, under a message's id; AlertFailed unless it is answered with 2xx."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "vkbench",
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message, timestamp, body),
    }
    try:
        request = Request(url, data=body, headers=headers, method="POST")
        with build_opener(_NoRedirect).open(request, timeout=TIMEOUT_SECONDS):
            pass
    except HTTPError as error:
        with error:
            raise AlertFailed(f"the webhook answered {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise AlertFailed(f"the webhook cannot be reached: {error}") from error


def signature(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over id, time and body, so that none of them can be another message's."""
    signed = b".".join([message.encode(), str(timestamp).encode(), body])
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """The bytes that a secret stands for; AlertFailed for a malformed one."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise AlertFailed(f"VKBENCH_ALERT_SECRET: after {PREFIX} comes no base64") from error


class _NoRedirect(HTTPRedirectHandler):
    """A message goes where it was meant to go, or nowhere."""

    def redirect_request(self, *asked: object, **named: object) -> None:
        return None
