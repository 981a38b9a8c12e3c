"""Metrics of a replication by OpenTelemetry, and the endpoint where they and the health of an instance are read.

Imported only with `-t`. What workers have copied the driver reads in the commit topic, and counts here.
"""
