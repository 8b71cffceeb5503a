"""What Prometheus may ask of a scheduler."""
