"""A process and its operating system: logs, signs of life, files, users, how Python starts."""
