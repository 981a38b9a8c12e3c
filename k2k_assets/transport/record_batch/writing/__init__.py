"""The sink: writes batches and control records in transactions, and sends nothing twice."""
