"""Questions about devices: how selectors name them, how they do, and what waits for each."""
