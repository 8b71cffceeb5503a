"""Work on this machine with no server: the executor, confirming, bisecting, computing."""
