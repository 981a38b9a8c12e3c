"""The translated consumer groups: the assets, the runs that move them, and what is reported of them."""
