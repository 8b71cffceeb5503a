"""Jobs go to workers through Redis, and results come back."""
