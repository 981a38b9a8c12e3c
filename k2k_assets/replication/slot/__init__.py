"""A slot, which is one copy task: sessions, transactions, start checks, stops."""
