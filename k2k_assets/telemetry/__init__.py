"""Metrics of a replication by OpenTelemetry, and the endpoint where they and the health of an instance are read.

Imported only with `-t`. Workers report to nobody but the commit topic; the driver reads it, and counts here.
"""
