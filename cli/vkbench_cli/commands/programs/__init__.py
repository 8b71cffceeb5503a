"""Commands on programs of others: declared, built, kept, and tried in pairs."""
