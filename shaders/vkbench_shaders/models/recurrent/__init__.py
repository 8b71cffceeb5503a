"""Models whose tokens leave states to the next ones: sizes, memory, steps and reference."""
