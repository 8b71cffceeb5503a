"""Recurrences over tokens: state-space models, RWKV, delta rules."""
