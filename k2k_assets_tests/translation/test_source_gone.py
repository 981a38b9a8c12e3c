"""A source that lost records in an unclean election, grew again, and then went for good.

```
 source, copied     0 ... 39  40 ... 99       the copy has met the cut-off at 40, and has stopped
 source, at last    0 ... 39  40 ... 139      40 to 139 were other records
```

Who has read above 40 may have read either: only the stop in the commit topic tells, for nobody can be asked any more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import update_index
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import translate_frame
from k2k_assets.translation.checkpoints import translate_checkpoint
from k2k_assets.translation.translator import translate_offsets
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.brokers.lossy_source import LossySource, lossy_broker
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.spark
def test_what_the_stop_of_the_copy_says_holds_when_the_source_is_gone(
    clusters: KafkaSandbox, tmp_path: Path, spark: SparkSession
) -> None:
    with lossy_broker(tmp_path) as broker:
        source = LossySource(broker)
        topic = create_topic(source.servers, unique("orders"))
        features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
        index = {"path": f"{tmp_path}/index"}
        pipeline = make_pipeline(
            tmp_path, source.servers, clusters.target_servers, [topic], features=features, index=index
        )
        source.write(topic, "kept", 40)
        source.mark(topic)
        source.write(topic, "lost", 60)
        copy(pipeline)
        source.lose()
        source.write(topic, "new", 100)
        assert list(copy(pipeline).stopped) == [topic]
        with both_clusters(pipeline) as (here, there):
            update_index(spark, pipeline, here, there)
    known = {20: "exact", 40: "exact", 60: "unknown", 100: "unknown"}
    assert {row.offset: row.state for row in translate_offsets(pipeline, topic, 0, known)} == known
    at = TopicPartition(topic, 0)
    assert {n: translate_checkpoint(pipeline, {at: n}).partitions[0].state for n in known} == known
    frame = spark.createDataFrame([(topic, 0, n) for n in known], "topic string, partition int, offset long")
    assert {row.offset: row.state for row in translate_frame(frame, pipeline).collect()} == known
