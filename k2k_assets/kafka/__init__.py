"""The clusters as they are: clients, metadata, offsets, configs."""
