"""Success metrics, and the times of other implementations that they are held against."""
