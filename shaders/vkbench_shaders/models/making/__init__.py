"""Making models: GGUF files of seeded weights with the shapes, names and keys of real models."""
