"""A demonstration: a database with a believable lab in it, for those who have no GPU at hand."""
