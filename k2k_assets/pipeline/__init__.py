"""The pipeline file: K2K's YAML language, read into one frozen model. Pure: no Kafka, Spark or Dagster."""

from k2k_assets.pipeline.loader import is_for_mapper_alone, load_pipeline, load_pipeline_in
from k2k_assets.pipeline.model import Pipeline

__all__ = ["Pipeline", "is_for_mapper_alone", "load_pipeline", "load_pipeline_in"]
