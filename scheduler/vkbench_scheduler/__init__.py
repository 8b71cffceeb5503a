"""What should run: suites, plans, submissions, and the service that sends and collects."""
