"""The Spark session of a pipeline as a Dagster resource.

`dagster-pyspark` never stops a session, and a second one with other static settings is silently the first one.
`sessions` handles both, so that each of two pipelines in one run gets its own settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from k2k_assets.pipeline import Pipeline
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets.spark.java_process import PATIENT_FLAGS
from k2k_assets.spark.sessions import LOST, not_started, start_session


class PipelineSparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session: no JVM before the first use, and the right one for each pipeline."""

    def session(self) -> SparkSession:
        """The session, which the first call creates.

        Raises:
            K2KError: Spark finds no suitable Java, or does not start.
        """
        try:
            return self.started()
        except LOST as error:
            raise not_started(self.spark_config, error) from None

    def started(self) -> SparkSession:
        """As `session`, for callers that try again: it raises Spark's own errors."""
        self._spark_session = start_session(self.spark_config)
        return self._spark_session

    @contextmanager
    def copying(self, pipeline: Pipeline) -> Iterator[ComingSpark]:
        """Spark for a copy: it starts while the copy prepares, and remains for `session`.

        Args:
            pipeline: The pipeline of this resource.
        """
        spark = ComingSpark(pipeline, PATIENT_FLAGS)
        try:
            yield spark
        finally:
            spark.await_start()
