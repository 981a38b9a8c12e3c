"""The status of a copy: lag in offsets and in seconds, rates, stops. It only reads clusters and commit log."""
