"""Functions of users on Arrow record batches: loads them, and calls them here or in a process of their own."""
