"""llama.cpp's own programs as peers, and what they print."""
