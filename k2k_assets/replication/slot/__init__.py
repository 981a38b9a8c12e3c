"""One copy task: sessions, transactions, start positions, stops."""
