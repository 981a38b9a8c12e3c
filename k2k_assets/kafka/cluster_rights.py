"""Asks what this client may do on the cluster resource. A small module: the child process of `apart` imports it."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation

from k2k_assets.kafka.cluster import Cluster

# A principal with all of these on the cluster can grant itself anything, or the cluster checks no rights at all.
_UNRESTRICTED = {AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.CREATE}


def is_restricted_here(cluster: Cluster) -> bool:
    """Whether ACLs may forbid this client anything. The call can crash this process (see `kafka/apart.py`)."""
    cluster.cluster_id()  # waits until brokers are listed: without them the next call aborts the process
    asked = cluster.admin.describe_cluster(include_authorized_operations=True, request_timeout=cluster.timeout)
    return not set(cluster.answer(asked, {}).authorized_operations or ()) >= _UNRESTRICTED
