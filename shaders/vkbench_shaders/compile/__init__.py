"""Slang sources become SPIR-V."""
