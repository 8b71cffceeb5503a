"""Forges, GitHub and GitLab: comments, statuses and issues, by their HTTP interfaces."""
