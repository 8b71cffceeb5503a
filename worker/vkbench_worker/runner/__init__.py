"""The process that loads the Vulkan driver: jobs in, results out."""
