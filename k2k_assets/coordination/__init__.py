"""Who copies what: claims, heartbeats, take-over, fencing."""
