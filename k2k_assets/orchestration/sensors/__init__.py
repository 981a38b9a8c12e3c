"""What asks for runs, and when."""
