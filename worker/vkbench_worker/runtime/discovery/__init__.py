"""Which devices this machine has, and what each can do."""
