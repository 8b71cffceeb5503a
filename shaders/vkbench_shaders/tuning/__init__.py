"""Which configurations are the fastest: tables that `vkbench tune` measured, one for each class."""
