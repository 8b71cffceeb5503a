"""What attacks are made on: real servers and real processes."""
