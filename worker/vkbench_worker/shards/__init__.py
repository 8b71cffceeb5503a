"""One case divided among devices of a host: parts, their results as one, their times."""
