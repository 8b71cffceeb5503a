"""Questions that commands and pages ask; nothing here writes."""
