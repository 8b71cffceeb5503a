"""One module a command or a small group of commands; `vkbench_cli.table` lists them all."""
