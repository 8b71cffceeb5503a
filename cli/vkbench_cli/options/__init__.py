"""Options of commands: those that several share, and what values they take."""
