"""What can run: formats, the kernel catalogue, float64 references, bundles of SPIR-V.

No GPU, no database.
"""
