"""Records as Confluent's serializers write them, of each kind of schema, with a reference to another schema in each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MONEY_AVRO = {
    "type": "record",
    "name": "Money",
    "namespace": "shop",
    "fields": [{"name": "cents", "type": "long"}, {"name": "currency", "type": "string", "default": "EUR"}],
}
ORDER_AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "number", "type": "long"}, {"name": "total", "type": "shop.Money"}],
}
MONEY_JSON = {
    "$id": "money.json",
    "type": "object",
    "properties": {"cents": {"type": "integer"}},
    "required": ["cents"],
}
ORDER_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"number": {"type": "integer"}, "total": {"$ref": "money.json"}},
    "required": ["number"],
}


@dataclass(frozen=True)
class Kind:
    """How records of one kind of schema are written and read.

    Attributes:
        name: As registries call it.
        writer: Makes a function of a registry and a topic: a number becomes a value.
        reader: The same, back.
    """

    name: str
    writer: Callable[[str, str], Callable[[int], bytes]]
    reader: Callable[[str, str], Callable[[bytes], int]]


def _client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


def _context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def _avro_writer(url: str, topic: str) -> Callable[[int], bytes]:
    client = _client(url)
    client.register_schema("shop.Money", Schema(json.dumps(MONEY_AVRO), "AVRO"))
    schema = Schema(json.dumps(ORDER_AVRO), "AVRO", [SchemaReference("shop.Money", "shop.Money", 1)])
    write = AvroSerializer(client, schema)
    return lambda n: bytes(write({"number": n, "total": {"cents": 7 * n, "currency": "EUR"}}, _context(topic)) or b"")


def _avro_reader(url: str, topic: str) -> Callable[[bytes], int]:
    read = AvroDeserializer(_client(url))
    return lambda value: _checked(read(value, _context(topic)))


def _json_writer(url: str, topic: str) -> Callable[[int], bytes]:
    client = _client(url)
    client.register_schema("money.json", Schema(json.dumps(MONEY_JSON), "JSON"))
    # Of this topic alone. A subject has one kind for Apicurio, whatever its versions are; and a text that it knows from
    # several subjects is, asked for by its id, of the first one's kind.
    own = {**ORDER_JSON, "title": f"Order of {topic}"}
    schema = Schema(json.dumps(own), "JSON", [SchemaReference("money.json", "money.json", 1)])
    write = JSONSerializer(schema, client)
    return lambda n: bytes(write({"number": n, "total": {"cents": 7 * n}}, _context(topic)) or b"")


def _json_reader(url: str, topic: str) -> Callable[[bytes], int]:
    read = JSONDeserializer(None, schema_registry_client=_client(url))
    return lambda value: _checked(read(value, _context(topic)))


def _checked(order: Any) -> int:
    assert order["total"]["cents"] == 7 * order["number"]
    return int(order["number"])


def _order_class() -> Any:
    """A message that is not the first of its file, so that its index is written before the payload."""
    pool = descriptor_pool.DescriptorPool()
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    cents = descriptor_pb2.FieldDescriptorProto(name="cents", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    money.message_type.add(name="Money").field.append(cents)
    orders = descriptor_pb2.FileDescriptorProto(
        name="orders.proto", package="shop", syntax="proto3", dependency=["money.proto"]
    )
    orders.message_type.add(name="Other")
    order = orders.message_type.add(name="Order")
    order.field.add(name="number", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    order.field.add(name="total", number=2, type="TYPE_MESSAGE", type_name=".shop.Money", label="LABEL_OPTIONAL")
    pool.Add(money)
    pool.Add(orders)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _protobuf_writer(url: str, topic: str) -> Callable[[int], bytes]:
    order = _order_class()
    write = ProtobufSerializer(order, _client(url), {"use.deprecated.format": False})

    def written(n: int) -> bytes:
        made = order(number=n)
        made.total.cents = 7 * n
        return bytes(write(made, _context(topic)) or b"")

    return written


def _protobuf_reader(url: str, topic: str) -> Callable[[bytes], int]:
    read = ProtobufDeserializer(_order_class(), {"use.deprecated.format": False}, _client(url))

    def number(value: bytes) -> int:
        made: Any = read(value, _context(topic))
        assert made.total.cents == 7 * made.number
        return int(made.number)

    return number


KINDS = (
    Kind("AVRO", _avro_writer, _avro_reader),
    Kind("JSON", _json_writer, _json_reader),
    Kind("PROTOBUF", _protobuf_writer, _protobuf_reader),
)
