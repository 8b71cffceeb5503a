"""Pictures as coordinates: what a page draws as SVG."""
