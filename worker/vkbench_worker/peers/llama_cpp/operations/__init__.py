"""What the catalogue and ggml share: rows of the table, and the functions that they name."""
