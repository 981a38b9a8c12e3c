"""Who copies what: instances, claims, beats and stops in the assignment topic, and the rules that they follow."""
