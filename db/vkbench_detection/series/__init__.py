"""Series of results, and what timings are compared with: noise, canaries, roofs."""
