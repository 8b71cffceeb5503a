"""How records travel: as JSON, signed and stamped, through Redis."""
