"""The only room that imports Dagster: assets, checks and sensors around what the other rooms do."""
