"""Client properties: from the names of Java clients to those that librdkafka and the registry client know."""
