"""A comparison as a table, in Markdown and in sentences."""
