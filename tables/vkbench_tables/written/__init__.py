"""How tables are written: as text, as data, and in the formats of other tools."""
