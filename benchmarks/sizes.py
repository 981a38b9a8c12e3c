"""How much is measured: the full amount, and a quick one to try the benchmark itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

_WHOLE_BATCHES = 100_000


@dataclass(frozen=True, slots=True)
class Load:
    """Records of one size in one topic.

    Attributes:
        topic: Where they are.
        size: Bytes of a value.
        records: How many.
        partitions: In how many partitions.
        prefix: The first bytes of each value.
        suffix: Its last bytes.
        batch: Records of a batch, as far as 256 KB hold so many.
        codec: How they are compressed; if at all, they are words, which shrink to a third, not random letters.
        with_headers: Whether each record has a header, which is not copied.
    """

    topic: str
    size: int
    records: int
    partitions: int = 4
    prefix: bytes = b""
    suffix: bytes = b""
    batch: int = _WHOLE_BATCHES
    codec: str = "none"
    with_headers: bool = False

    @property
    def title(self) -> str:
        """As tables name it."""
        unit = f"{self.size / 1000:g} KB" if self.size >= 1000 else f"{self.size} B"
        how = f" {self.codec}" if self.codec != "none" else ""
        how += f", {self.batch} a batch" if self.batch < _WHOLE_BATCHES else ""
        how += ", headers left out" if self.with_headers else ""
        return f"{self.records / 1e6:g}M x {unit}{how}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a run of the benchmark measures.

    Attributes:
        loads: To be copied.
        shaped: To be copied in large transactions exactly once, in both forms.
        warm_up: To be copied once before.
        repeat: How often each copy is measured; the median is shown.
        memory: To be copied while memory is watched.
        again: How often the last of these is copied by the same workers, one run after the other.
        starts: To be copied by processes of their own.
        seconds: For how long latency is measured at each rate.
        mirror_modes: How many modes of MirrorMaker 2 are measured.
        full: Whether the figures are worth keeping.
    """

    loads: tuple[Load, ...]
    shaped: tuple[Load, ...]
    warm_up: Load
    repeat: int
    memory: tuple[Load, ...]
    again: int
    starts: tuple[Load, ...]
    seconds: int
    mirror_modes: int
    full: bool

    @property
    def compared(self) -> tuple[Load, ...]:
        """To be copied by the other programs too."""
        return (*self.loads, *(load for load in self.shaped if load.codec != "none"))


FULL = Sizes(
    loads=(Load("bench-100", 100, 8_000_000), Load("bench-1000", 1000, 2_000_000)),
    shaped=(
        Load("bench-lz4", 1000, 1_000_000, batch=47, codec="lz4"),
        Load("bench-four", 1000, 400_000, batch=4),
        Load("bench-one", 1000, 200_000, batch=1),
        Load("bench-headers", 100, 4_000_000, with_headers=True),
    ),
    warm_up=Load("bench-warm-up", 100, 1_000_000),
    repeat=3,
    memory=(
        *(
            Load(f"memory-{records}-{partitions}", 100, records, partitions)
            for records in (1_000_000, 20_000_000)
            for partitions in (1, 100)
        ),
        # The most bytes in one transaction of one slot.
        Load("memory-large-1", 1000, 1_000_000, 1),
    ),
    again=20,
    starts=(Load("start-small", 100, 10_000), Load("start-large", 100, 1_000_000)),
    seconds=30,
    mirror_modes=3,
    full=True,
)

QUICK = Sizes(
    loads=(Load("bench-100", 100, 400_000), Load("bench-1000", 1000, 100_000)),
    shaped=(
        Load("bench-lz4", 1000, 100_000, batch=47, codec="lz4"),
        Load("bench-one", 1000, 20_000, batch=1),
        Load("bench-headers", 100, 200_000, with_headers=True),
    ),
    warm_up=Load("bench-warm-up", 100, 100_000),
    repeat=1,
    memory=(Load("memory-200000-1", 100, 200_000, 1), Load("memory-large-1", 1000, 200_000, 1)),
    again=3,
    starts=(Load("start-small", 100, 10_000),),
    seconds=5,
    mirror_modes=1,
    full=False,
)


def chosen(quick: bool, records: int | None, repeat: int | None) -> Sizes:
    """The sizes that the command line asks for.

    Args:
        quick: Start from the quick ones.
        records: Of 100 B; a quarter of it of 1 KB.
        repeat: How often each copy is measured.
    """
    sizes = QUICK if quick else FULL
    if records is not None:
        small, large = sizes.loads
        full = sizes.full and records >= small.records
        loads = (replace(small, records=records), replace(large, records=max(1, records // 4)))
        sizes = replace(sizes, loads=loads, full=full)
    return sizes if repeat is None else replace(sizes, repeat=repeat, full=sizes.full and repeat >= FULL.repeat)
