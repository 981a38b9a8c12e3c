"""The source: fetches from all leaders at once, and keeps batches as they come."""
