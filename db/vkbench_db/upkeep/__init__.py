"""Rows of schedules, bisections, alerts and heartbeats."""
