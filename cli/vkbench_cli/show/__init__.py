"""Tables, lines and reports that commands print."""
