"""The sections of the pipeline file: a module for each, with its keys, their types and what they mean."""
