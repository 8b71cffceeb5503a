"""`vkbench worker`: a Celery consumer a device."""
