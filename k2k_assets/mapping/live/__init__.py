"""Live mappings: follows the mapping topic, and joins the mappings in memory with the index."""
