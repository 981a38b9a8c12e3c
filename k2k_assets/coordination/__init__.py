"""Shares source partitions among instances: claims, heartbeats, take-over, fencing."""
