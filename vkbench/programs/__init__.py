"""Programs of others whose builds are under test: what they are, where builds are kept."""
