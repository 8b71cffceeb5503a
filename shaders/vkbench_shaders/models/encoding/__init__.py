"""Encoders: all tokens of a sequence see each other, and become one vector."""
