"""What can run: formats, the kernel catalogue, float64 references, and bundles of SPIR-V. No GPU, no database."""
