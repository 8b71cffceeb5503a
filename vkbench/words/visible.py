"""Makes untrusted text safe to show: spells out control characters.

Names of devices and drivers, labels, reasons and users come from workers, files and people. What
programs read (JSON, CSV) is exact and does not go through here.
"""

from __future__ import annotations

import re

# Controls C0 and C1, marks and overrides of direction, separators of lines, characters without
# width, halves of a pair, tags
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_HIDDEN_IN_LINES = re.compile(rf"(?![\n\t]){_HIDDEN.pattern}")


def visible(text: str) -> str:
    r"""Text in which each hidden character is spelled out, such as \x1b; line breaks too."""
    return _HIDDEN.sub(_escape_of_character, text)


def visible_lines(text: str) -> str:
    """Like `visible`, but keeps line breaks and tabs."""
    return _HIDDEN_IN_LINES.sub(_escape_of_character, text)


def _escape_of_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
