"""Products of matrices with a few vectors, the work of decoding a token, and their code paths."""
