"""Assets, checks and sensors for the other rooms; only this room imports Dagster."""
