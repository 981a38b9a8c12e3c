"""Why keys of MirrorMaker 2 have no counterpart in a pipeline file. Values never appear."""

from __future__ import annotations

import re

_CONNECT = "a setting of Kafka Connect, which k2k does not need"
_BYTES = "records are copied as they are, byte by byte"
_GROUPS = "the mapper polls all groups at each groups.pollInterval"
_HEARTBEATS = "there is no heartbeat topic: `k2k status` shows how far behind a copy is"
_SYNCS = "every offset is mapped exactly, in the transaction of its record"
_ON_TARGET = "nothing is written to the source: mappings are kept on the target"
_CONFIGS = "topics get the source's configs when they are created; later changes are shown by `k2k topics plan -f FILE`"
_ACLS = "ACLs are not copied by themselves: see `k2k topics plan -f FILE`, and `k2k topics apply`"
_METRICS = "metrics of Kafka Connect; `k2k start -t` exports metrics by OpenTelemetry, and `k2k status --json` has lag"
_FILTER = "all configs of a topic that can be copied are, without those in target.kafka.topicPropsExclusionList"
_CODE = "Java code cannot be loaded"

# The first expression that matches the whole key counts.
_REASONS = {
    r"(source\.)?consumer\.group\.id": "no group is joined: group.id names the progress of the pipeline",
    r"refresh\.topics\.enabled": "new topics and partitions are always copied",
    r"refresh\.groups\..*": _GROUPS,
    r"emit\.checkpoints\.interval\.seconds": _GROUPS,
    r"emit\.heartbeats\..*|heartbeats\..*": _HEARTBEATS,
    r"offset\.lag\.max|emit\.offset-syncs\..*": _SYNCS,
    r"offset-syncs\.topic\.location": _ON_TARGET,
    r"sync\.topic\.configs\..*|use\.incremental\.alter\.configs": _CONFIGS,
    r"config\.properties\.(exclude|blacklist)|use\.defaults\.from": _FILTER,
    r"sync\.topic\.acls\..*": _ACLS,
    r"(config\.property|topic|group)\.filter\.class|forwarding\.admin\.class": _CODE,
    r"transforms(\..*)?|predicates(\..*)?": "Java code cannot be loaded: `transform` has filters, masks and "
    "functions in Python",
    r"metric\.reporters|metrics\..*|add\.source\.alias\.to\.metrics": _METRICS,
    r"(key|value|header)\.converter(\..*)?": _BYTES,
    r"replication\.policy\.internal\.topic\.separator\.enabled": "MirrorMaker 2's own topics are not needed",
    r"consumer\.poll\.timeout\.ms|admin\.timeout\.ms": "every call has the engine's own deadline",
    r"transaction\.boundary.*": "coordination.commit sets the size of a transaction",
    r"config\.providers(\..*)?": "variables are part of the pipeline language: ${env:NAME}, ${file:/path}",
    r"producer\.(?!override\.).*|target\.producer\..*": "only for MirrorMaker 2's own topics; records are written with "
    "TARGET.producer.* and SOURCE->TARGET.producer.override.*",
    r"(offset|config|status)\.storage\..*|(task|tasks|worker|rest|listeners|plugin|offset\.flush|connector|errors)\b.*"
    r"|group\.id|dedicated\.mode.*|scheduled\.rebalance.*|rebalance\..*|name|client\.id|exactly\.once.*"
    r"|internal\..*|access\.control.*|admin\.listeners.*|response\.http.*|topic\.creation.*|heartbeat\..*"
    r"|session\.timeout.*|connect\.protocol": _CONNECT,
}


def reason_for(key: str) -> str:
    """Why a key that was not converted has no counterpart.

    Args:
        key: The key, without the alias of a cluster or flow.
    """
    for expression, reason in _REASONS.items():
        if re.fullmatch(expression, key):
            return reason
    return "unknown to this command: check whether the pipeline needs a similar setting"
