"""The checks as Dagster sees them; what they find is found in verification."""
