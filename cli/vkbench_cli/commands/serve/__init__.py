"""Commands that look after the service: workers, schedulers, databases, bundles."""
