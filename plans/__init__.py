"""The four plans that vkbench grew from, held against what vkbench has; no package ships this.

`make plans` prints the success metrics that the plans name, each with what a database knows of it.
`make plans ARGS=checklist` lists their 325 items with what shows each one, and `ARGS=grid` the 123
kernels of ROCm's grid with their cases here. Nothing of vkbench imports this package.
"""
