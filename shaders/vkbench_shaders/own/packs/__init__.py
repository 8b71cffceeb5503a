"""Packs: declarations of other projects' shaders, to run against a user's checkout of them."""
