"""The bytes of every kind of record, as in the topics of today's users.

Compaction compares the bytes of keys, and older releases read what newer ones write. So with any writer, not
one byte may change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from k2k_assets.control import assignment_records as assignment
from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.control.commit_record import CommitRecord, Overridden, key_bytes
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.control.group_versions import Version
from k2k_assets.control.mapper_claims import ClaimedMappers, MapperClaim, MapperHeartbeat
from k2k_assets.control.mapping_records import (
    BothWays,
    DroppedBy,
    MappedPartition,
    MappingKey,
    MappingRecord,
    parse_key,
)
from k2k_assets.control.pause_records import Pause, pause_key, pause_value
from k2k_assets.control.stop_notes import StopNote
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.runs import Run
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.stops.reasons.target_log import OpenTransaction
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.bidirectional import Marker

# Characters that JSON escapes, and others: two and four bytes in UTF-8, both separators of JavaScript, DEL.
ODD = 'ü"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u2029😀'
ODD_JSON = b'\xc3\xbc\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xe2\x80\xa8\xe2\x80\xa9\xf0\x9f\x98\x80'
MAX = 2**63 - 1

COMMIT = CommitRecord(
    group="k2k.g",
    cluster="c",
    source=TopicPartition("orders", 7),
    kind="commit",
    pipeline="p",
    position=1234,
    leader_epoch=3,
    source_topic_id="sid",
    target_topic="copies",
    target_topic_id="tid",
    target_end=1301,
    generation=16,
    slot=2,
    sequence=5,
    time=1_700_000_000_000,
    records=11,
    bytes_=22,
    runs=3,
    began=0,
)
START = replace(
    COMMIT, kind="start", position=MAX, leader_epoch=None, target_end=None, records=0, bytes_=0, runs=0, log_start=0,
    began=None, epoch_end=1200,
)  # fmt: skip
OVERRIDE = replace(
    COMMIT, kind="override", pipeline=ODD, overridden=Overridden(ODD, None, None, None, None, None), log_start=4
)
STOPPED = Overridden("anna", "it \\was\\ gone", 3, "s", "t", Unclassified('of "old"', "later"))
NOTE = StopNote("k2k.g", "c", TopicPartition(ODD, 7), "p", 16, 2, 1_700_000_000_000, Unclassified(ODD))
MAPPING = MappingRecord(
    group="k2k.g",
    topic="orders",
    partition=3,
    pipeline="p",
    cluster="c",
    source_topic_id="sid",
    generation=17,
    slot=1,
    sequence=42,
    time=1_700_000_000_000,
    covered_from=1000,
    covered_to=1012,
    targets=(
        MappedPartition("copies", "tid", 3, (Run(1000, 2000, 5), Run(1006, MAX, 1))),
        MappedPartition(ODD, "tid", 4, ()),
    ),
    settings="a1b2c3d4",
)
BOTH_WAYS = replace(MAPPING, both_ways=BothWays("cluster", True, False))
LEFT_OUT = replace(
    MAPPING, targets=(), dropped=(DroppedBy(ODD, ((1000, 1003), (1007, MAX))), DroppedBy("marker", ((1003, 1005),)))
)
NOTHING = replace(MAPPING, topic=ODD, targets=(), settings=None, override=ODD)
CLAIM = Claim("sid", 3, "k2k.p.g.0", "c1", 17, 0, ODD)
INSTANCE = InstanceRecord("i1", "p", 2, "cid", "host", 4711, 1_700_000_000_000)
RUN = replace(INSTANCE, continuous=True, run="d3b07384")
SETTINGS = CopySettings("read_committed", headers=True, timestamps=False, alone=True)
MAPPER = MapperClaim("p", "g", "m1", "host", 4711, 1_700_000_000_000)
BEAT = MapperHeartbeat("p", "g", "m1", "host", 4711, 1_700_000_000_000)

GOLDEN: dict[str, tuple[bytes, bytes]] = {
    "commit key": (COMMIT.key_bytes(), b'{"group":"k2k.g","cluster":"c","topic":"orders","partition":7}'),
    "commit key, odd": (
        replace(COMMIT, group=ODD, cluster=ODD, source=TopicPartition(ODD, 2**31 - 1)).key_bytes(),
        b'{"group":"'
        + ODD_JSON
        + b'","cluster":"'
        + ODD_JSON
        + b'","topic":"'
        + ODD_JSON
        + b'","partition":2147483647}',
    ),
    "commit": (
        COMMIT.value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0}',
    ),
    "commit, at least once": (
        replace(COMMIT, producer=ProducerIdentity(MAX, 2**15 - 1)).value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"producer":{"id":9223372036854775807,"epoch":32767}}',
    ),
    "commit, noted to be at least once": (
        replace(COMMIT, at_least_once=True).value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"atLeastOnce":true}',
    ),
    "commit, noted to have been at least once": (
        replace(COMMIT, at_least_once_below=1200).value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"atLeastOnceBelow":1200}',
    ),
    "commit, copied only forwards": (
        replace(COMMIT, forward_since=9, spread=True).value_bytes(),
        COMMIT.value_bytes()[:-1] + b',"forwardSince":9,"spread":true}',
    ),
    "commit, nothing known": (
        START.value_bytes(),
        b'{"version":1,"kind":"start","pipeline":"p","position":9223372036854775807,"leaderEpoch":null,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":null,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":0,"bytes":0,"runs":0,"reason":null,'
        b'"began":null,"leaderEpochEnd":1200,"logStart":0}',
    ),
    "release, stopped": (
        replace(COMMIT, kind="release", reason=Unclassified(ODD)).value_bytes(),
        b'{"version":1,"kind":"release","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":"'
        + ODD_JSON
        + b'","stop":{"code":"unclassified","facts":{"text":"'
        + ODD_JSON
        + b'","notedCode":null}},"began":0}',
    ),
    "commit, both ways": (
        replace(COMMIT, marker=Marker(ODD, "pipeline", "p"), marker_changed=True).value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"marker":["' + ODD_JSON + b'","pipeline","p"],"markerChanged":true}',
    ),
    "commit, by batches": (
        replace(COMMIT, transport="batches", dropped=4).value_bytes(),
        b'{"version":1,"kind":"commit","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"dropped":4,"transport":"batches"}',
    ),
    "override": (
        OVERRIDE.value_bytes(),
        b'{"version":1,"kind":"override","pipeline":"'
        + ODD_JSON
        + b'","position":1234,"leaderEpoch":3,"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},'
        b'"targetEnd":1301,"generation":16,"slot":2,"sequence":5,"time":1700000000000,"records":11,'
        b'"bytes":22,"runs":3,"reason":null,"began":0,"logStart":4,"overridden":{"by":"'
        + ODD_JSON
        + b'","why":null,"position":null,"sourceTopicId":null,"targetTopicId":null,"stopped":null}}',
    ),
    "override, stopped before": (
        replace(OVERRIDE, pipeline="p", overridden=STOPPED, log_start=None).value_bytes(),
        b'{"version":1,"kind":"override","pipeline":"p","position":1234,"leaderEpoch":3,'
        b'"sourceTopicId":"sid","target":{"topic":"copies","id":"tid"},"targetEnd":1301,"generation":16,'
        b'"slot":2,"sequence":5,"time":1700000000000,"records":11,"bytes":22,"runs":3,"reason":null,'
        b'"began":0,"overridden":{"by":"anna","why":"it \\\\was\\\\ gone","position":3,"sourceTopicId":"s",'
        b'"targetTopicId":"t","stopped":"of \\"old\\"","stop":{"code":"later","facts":{"text":"of \\"old\\"",'
        b'"notedCode":"later"}}}}',
    ),
    "stop note key": (
        NOTE.key_bytes(),
        b'{"kind":"stopped","group":"k2k.g","cluster":"c","topic":"' + ODD_JSON + b'","partition":7}',
    ),
    "stop note": (
        NOTE.value_bytes(),
        b'{"version":1,"pipeline":"p","generation":16,"slot":2,"time":1700000000000,"reason":"'
        + ODD_JSON
        + b'","stop":{"code":"unclassified","facts":{"text":"'
        + ODD_JSON
        + b'","notedCode":null}}}',
    ),
    "mapping key": (MAPPING.key_bytes(), b'{"group":"k2k.g","topic":"orders","partition":3}'),
    "mapping key, odd": (
        NOTHING.key_bytes(),
        b'{"group":"k2k.g","topic":"' + ODD_JSON + b'","partition":3}',
    ),
    "mapping": (
        MAPPING.value_bytes(),
        b'{"version":1,"pipeline":"p","cluster":"c","sourceTopicId":"sid","generation":17,"slot":1,'
        b'"sequence":42,"time":1700000000000,"from":1000,"to":1012,"targets":[{"topic":"copies",'
        b'"id":"tid","partition":3,"runs":[[1000,2000,5],[1006,9223372036854775807,1]]},{"topic":"'
        + ODD_JSON
        + b'","id":"tid","partition":4,"runs":[]}],"settings":"a1b2c3d4"}',
    ),
    "mapping, override": (
        NOTHING.value_bytes(),
        b'{"version":1,"pipeline":"p","cluster":"c","sourceTopicId":"sid","generation":17,"slot":1,'
        b'"sequence":42,"time":1700000000000,"from":1000,"to":1012,"targets":[],"override":"' + ODD_JSON + b'"}',
    ),
    "mapping, left out": (
        LEFT_OUT.value_bytes(),
        b'{"version":1,"pipeline":"p","cluster":"c","sourceTopicId":"sid","generation":17,"slot":1,'
        b'"sequence":42,"time":1700000000000,"from":1000,"to":1012,"targets":[],"settings":"a1b2c3d4",'
        b'"dropped":[{"rule":"' + ODD_JSON + b'","ranges":[[1000,1003],[1007,9223372036854775807]]},'
        b'{"rule":"marker","ranges":[[1003,1005]]}]}',
    ),
    "mapping, copied only forwards": (
        replace(MAPPING, forward_since=9).value_bytes(),
        MAPPING.value_bytes()[:-1] + b',"forwardSince":9}',
    ),
    "mapping, both ways": (
        BOTH_WAYS.value_bytes(),
        MAPPING.value_bytes()[:-1] + b',"bothWays":{"mode":"cluster","shared":true,"exactlyOnce":false}}',
    ),
    "commit, left out": (
        replace(COMMIT, dropped=5).value_bytes(),
        COMMIT.value_bytes()[:-1] + b',"dropped":5}',
    ),
    "claim key": (
        CLAIM.key_bytes("g"),
        b'{"kind":"claim","group":"g","topicId":"sid","partition":3,"transactionalId":"k2k.p.g.0","claim":"c1"}',
    ),
    "claim": (
        CLAIM.value_bytes(1_700_000_000_000),
        b'{"version":1,"generation":17,"slot":0,"topic":"' + ODD_JSON + b'","time":1700000000000}',
    ),
    "instance key": (assignment.instance_key("g", "i1"), b'{"kind":"instance","group":"g","instance":"i1"}'),
    "instance": (
        assignment.instance_value(INSTANCE),
        b'{"version":1,"pipeline":"p","slots":2,"commitTopicId":"cid","host":"host","pid":4711,'
        b'"time":1700000000000,"continuous":false}',
    ),
    "instance, Dagster run": (
        assignment.instance_value(RUN),
        b'{"version":1,"pipeline":"p","slots":2,"commitTopicId":"cid","host":"host","pid":4711,'
        b'"time":1700000000000,"continuous":true,"run":"d3b07384"}',
    ),
    "start key": (assignment.start_key("g", "sid"), b'{"kind":"start","group":"g","topicId":"sid"}'),
    "start": (
        assignment.start_value(ODD, (0, 7, MAX)),
        b'{"version":1,"topic":"' + ODD_JSON + b'","positions":[0,7,9223372036854775807]}',
    ),
    "start, no partition": (assignment.start_value("orders", ()), b'{"version":1,"topic":"orders","positions":[]}'),
    "settings key": (
        assignment.settings_key("g", SETTINGS.fingerprint),
        b'{"kind":"settings","group":"g","fingerprint":"0d6ed72f"}',
    ),
    "settings": (
        assignment.settings_value(SETTINGS),
        b'{"version":1,"settings":{"isolation":"read_committed","headers":true,"timestamps":false,"alone":true}}',
    ),
    "pause key": (pause_key("g", "orders"), b'{"kind":"pause","group":"g","topic":"orders"}'),
    "pause": (
        pause_value(Pause("anna@ops1", 1_700_000_000_000, ODD)),
        b'{"version":1,"by":"anna@ops1","time":1700000000000,"why":"' + ODD_JSON + b'"}',
    ),
    "pause, no reason": (pause_value(Pause("a", 1)), b'{"version":1,"by":"a","time":1}'),
    "stop key": (assignment.stop_key("g", 17), b'{"kind":"stop","group":"g","generation":17}'),
    "stop": (assignment.stop_value(1_700_000_000_000, again=True), b'{"version":1,"time":1700000000000,"again":true}'),
    "heartbeat key": (assignment.heartbeat_key("g", 17, 1), b'{"kind":"beat","group":"g","generation":17,"slot":1}'),
    "heartbeat": (assignment.time_value(1_700_000_000_000), b'{"version":1,"time":1700000000000}'),
    "mapper claim key": (MAPPER.key_bytes(), b'{"kind":"mapper","pipeline":"p","mapper":"m1","group":"g"}'),
    "mapper claim key, no group": (
        replace(MAPPER, group=None).key_bytes(),
        b'{"kind":"mapper","pipeline":"p","mapper":"m1"}',
    ),
    "mapper claim": (MAPPER.value_bytes(), b'{"version":1,"host":"host","pid":4711,"time":1700000000000}'),
    "mapper heartbeat key": (BEAT.key_bytes(), b'{"kind":"mapper-beat","pipeline":"p","mapper":"m1","group":"g"}'),
    "mapper heartbeat": (BEAT.value_bytes(), b'{"version":1,"host":"host","pid":4711,"time":1700000000000}'),
    "mapper heartbeat, Dagster run": (
        replace(BEAT, run="d3b07384").value_bytes(),
        b'{"version":1,"host":"host","pid":4711,"time":1700000000000,"run":"d3b07384"}',
    ),
    "version of a commit of a group": (
        Version(1204, 1758021130250).metadata("k2k_").encode(),
        b"k2k_1204.1758021130250",
    ),
    "version of a commit of a group, with the source cluster": (
        Version(1204, 1758021130250, "rJLnq9WvT0a4uQd2bX7y1g").metadata("k2k_").encode(),
        b"k2k_1204.1758021130250@rJLnq9WvT0a4uQd2bX7y1g",
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_a_record_has_the_bytes_that_it_always_had(kind: str) -> None:
    written, golden = GOLDEN[kind]
    assert written == golden


def test_a_commit_record_tells_how_many_records_were_left_out() -> None:
    left_out = replace(COMMIT, dropped=5)
    assert CommitRecord.parse(left_out.key_bytes(), left_out.value_bytes(), "there") == left_out


@pytest.mark.parametrize("record", [COMMIT, START, OVERRIDE], ids=lambda record: record.kind)
def test_the_bytes_of_a_commit_record_are_read_as_what_was_written(record: CommitRecord) -> None:
    key = key_bytes("k2k.g", "c", TopicPartition("orders", 7))
    golden = {"commit": "commit", "start": "commit, nothing known", "override": "override"}[record.kind]
    assert CommitRecord.parse(key, GOLDEN[golden][1], "there") == record


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        (MAPPING, ("mapping key", "mapping")),
        (LEFT_OUT, ("mapping key", "mapping, left out")),
        (NOTHING, ("mapping key, odd", "mapping, override")),
        (BOTH_WAYS, ("mapping key", "mapping, both ways")),
    ],
)
def test_the_bytes_of_a_mapping_record_are_read_as_what_was_written(
    record: MappingRecord, kinds: tuple[str, str]
) -> None:
    key, value = (GOLDEN[kind][1] for kind in kinds)
    assert MappingRecord.parse(key, value) == record


def test_the_bytes_of_assignment_records_are_read_as_what_was_written() -> None:
    head, said = json.loads(GOLDEN["claim key"][1]), {kind: golden for kind, (_, golden) in GOLDEN.items()}
    assert Claim.parse(head, said["claim"], -1, "there") == CLAIM
    assert assignment.parse_instance("i1", said["instance"], "there") == INSTANCE
    assert assignment.parse_instance("i1", said["instance, Dagster run"], "there") == RUN
    assert assignment.parse_start(said["start"], "there") == (0, 7, MAX)
    assert CopySettings.parse(assignment.parse_settings(said["settings"], "there")) == SETTINGS
    assert assignment.parse_stop(said["stop"], "there")
    assert assignment.parse_time(said["heartbeat"], "there") == 1_700_000_000_000
    mappers = ClaimedMappers("p")
    mappers.apply(1, said["mapper claim key"], said["mapper claim"], "there")
    mappers.apply(2, said["mapper heartbeat key"], said["mapper heartbeat, Dagster run"], "there")
    assert (mappers.claims, mappers.heartbeats) == ({1: MAPPER}, {2: replace(BEAT, run="d3b07384")})


STOPS: dict[StopReason, bytes] = {
    RecordsDeleted(TopicPartition(ODD, 7), 3, MAX): (
        b'{"code":"records-deleted","facts":{"source":{"topic":"'
        + ODD_JSON
        + b'","partition":7},"position":3,"logStart":9223372036854775807}}'
    ),
    **{
        OpenTransaction(TopicPartition("s", 0), TopicPartition("t", 1), 40, 55, None, seconds): (
            b'{"code":"open-transaction","facts":{"source":{"topic":"s","partition":0},'
            b'"target":{"topic":"t","partition":1},"start":40,"end":55,"targetEnd":null,"seconds":' + written + b"}}"
        )
        for seconds, written in ((70.0, b"70.0"), (0.1, b"0.1"), (1e-05, b"1e-05"), (1e16, b"1e+16"))
    },
}


@pytest.mark.parametrize(("reason", "golden"), STOPS.items())
def test_the_facts_of_a_stop_have_the_bytes_that_they_always_had(reason: StopReason, golden: bytes) -> None:
    """Beside a text that may be worded anew, so that is left out."""
    stopped = replace(COMMIT, kind="release", reason=reason).value_bytes()
    put_aside = replace(OVERRIDE, overridden=Overridden("anna", None, None, None, None, reason)).value_bytes()
    assert stopped.partition(b',"stop":')[2] == golden + b',"began":0}'
    assert put_aside.partition(b',"stop":')[2] == golden + b"}}"


@pytest.mark.parametrize(
    "write",
    [
        lambda name: replace(COMMIT, group=name).key_bytes(),
        lambda name: replace(COMMIT, pipeline=name).value_bytes(),
        lambda name: replace(MAPPING, topic=name).key_bytes(),
        lambda name: replace(MAPPING, override=name).value_bytes(),
        lambda name: assignment.instance_key(name, "i1"),
    ],
)
def test_half_a_letter_is_written_nowhere(write: Callable[[str], bytes]) -> None:
    """A surrogate by itself, as from an argument that is no UTF-8: no topic and no group has one in its name."""
    with pytest.raises(UnicodeEncodeError):
        write("orders-\ud83d")


def test_escaped_halves_of_a_letter_are_read_as_one() -> None:
    """Other tools than ours may escape all letters beyond ASCII."""
    key = b'{"group":"\\u00fc","topic":"\\ud83d\\ude00","partition":3}'
    assert parse_key(key) == MappingKey("ü", "😀", 3)
    assert MappingRecord.parse(key, MAPPING.value_bytes().replace(b'"p"', b'"\\ud83d\\ude00"')).pipeline == "😀"
