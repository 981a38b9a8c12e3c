"""The folder that `dg` looks for component definitions in: there are none, `k2k_assets.definitions` holds them all."""
