"""A kernel of one's own to begin with: `vkbench kernel new` copies these files."""
