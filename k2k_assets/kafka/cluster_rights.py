"""What this client may do on a cluster as a whole: asked in a process of its own, which imports little."""

from __future__ import annotations

from confluent_kafka.admin import AclOperation

from k2k_assets.kafka.cluster import Cluster

# Who may do these on the cluster may grant anything to itself, or is asked for nothing at all.
_UNRESTRICTED = {AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.CREATE}


def is_restricted_here(cluster: Cluster) -> bool:
    """Whether anything may be forbidden to this client; the client may end this process (see `kafka.apart`)."""
    cluster.cluster_id()  # without a broker that takes part, the question would end the process (see there)
    asked = cluster.admin.describe_cluster(include_authorized_operations=True, request_timeout=cluster.timeout)
    return not set(cluster.answer(asked, {}).authorized_operations or ()) >= _UNRESTRICTED
