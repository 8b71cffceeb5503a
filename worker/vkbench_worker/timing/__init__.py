"""How long a kernel takes, and how sure that is."""
