"""Answers as tables, for the terminal and the pages: columns, and rows of the same names."""
