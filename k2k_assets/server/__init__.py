"""The page of `k2k-tool server`, and the JSON API behind it."""
