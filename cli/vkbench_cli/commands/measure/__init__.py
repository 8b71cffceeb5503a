"""Commands that measure, or have something measured."""
