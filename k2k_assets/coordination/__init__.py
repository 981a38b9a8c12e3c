"""Who copies what: claims, signs of life, take-over, fencing."""
