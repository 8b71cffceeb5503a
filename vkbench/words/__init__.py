"""Text for people: names and globs, units, Markdown, and foreign text made safe to show."""
