"""Proves by whole record batches, undecoded where it can be, that copies are the same on both clusters."""
