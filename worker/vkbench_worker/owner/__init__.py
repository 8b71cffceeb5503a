"""The supervisor: starts runners, watches them and replaces those that die."""
