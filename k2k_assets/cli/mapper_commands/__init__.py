"""The commands of `k2k-offset-mapping` beside `start` and `poll`, and what it shows of polls."""
