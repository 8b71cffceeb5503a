"""Who may write: the guard before every page, signed-in visitors, and the API that writes."""
