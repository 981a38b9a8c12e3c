"""The same clusters with their roles changed, for a pipeline that copies back."""

from __future__ import annotations

from k2k_assets.sandbox import KafkaSandbox


class Opposite(KafkaSandbox):
    """Clusters of another sandbox, which starts and stops them.

    Args:
        sandbox: Its target is the source here, and its source the target.
    """

    def __init__(self, sandbox: KafkaSandbox) -> None:
        super().__init__()
        self._brokers.update(source=sandbox.target, target=sandbox.source)
