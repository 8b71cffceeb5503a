"""Products by cooperative matrices: their tiles, how factors are packed, and their launches."""
