"""A signed webhook, as standardwebhooks.com has it: receivers may use its libraries to verify."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from vkbench.messages.exchange import Unanswered, exchange
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
        answer = exchange("POST", url, headers, body, seconds=TIMEOUT_SECONDS, most_bytes=0)
    except Unanswered as error:
        raise AlertFailed(f"the webhook {error}") from error
    if not 200 <= answer.code < 300:
        raise AlertFailed(f"the webhook answered {answer.code} {answer.reason}")


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
