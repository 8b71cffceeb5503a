"""Whole models on a device: their weights, their recorded phases, and how they are judged."""
