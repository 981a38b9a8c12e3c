"""What Dagster's asset graph shows: texts, and the edges between them, as the browser has laid them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from playwright.sync_api import Page

# A text that is kept for measuring stands in an element without a height: nobody sees it.
_READ = """() => {
    const texts = [];
    document.querySelectorAll("svg foreignObject").forEach((node, number) => {
        const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const text = walker.currentNode;
            if (!text.textContent.trim() || !text.parentElement.getBoundingClientRect().height) continue;
            const range = document.createRange();
            range.selectNodeContents(text);
            for (const box of range.getClientRects()) {
                if (box.bottom <= 0 || box.top >= innerHeight) continue;
                texts.push([number, text.textContent, box.left, box.top, box.right, box.bottom]);
            }
        }
    });
    const edges = [...document.querySelectorAll("svg path[marker-end]")].map(path => {
        const numbers = path.getAttribute("d").match(/-?[0-9.]+/g).map(Number);
        const seen = path.getScreenCTM();
        return [0, 2, 4, 6].map(at => new DOMPoint(numbers[at], numbers[at + 1]).matrixTransform(seen))
            .map(point => [point.x, point.y]);
    });
    return [texts, edges];
}"""
# Of a curve; the highest on the page of 300 topics has them a few pixels apart.
_POINTS = 4000


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text.

    Attributes:
        node: The number of the node that it stands in.
        words: The text.
        left: Its place on the screen, in pixels, as the others.
        top: See there.
        right: See there.
        bottom: See there.
    """

    node: int
    words: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """In pixels."""
        return self.bottom - self.top

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is in it."""
        return self.left < x < self.right and self.top < y < self.bottom

    def covers(self, other: Text) -> bool:
        """Whether it stands on another one."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge, as the four points of its curve."""

    points: tuple[tuple[float, float], ...]

    def crosses(self, other: Edge) -> bool:
        """Whether two edges between the same columns change places."""
        (x, y), (to_x, to_y) = self.points[0], self.points[-1]
        (other_x, other_y), (other_to_x, other_to_y) = other.points[0], other.points[-1]
        return x < other_to_x and other_x < to_x and (y - other_y) * (to_y - other_to_y) < 0

    def runs_over(self, text: Text) -> bool:
        """Whether it is drawn on a text, but for that of a node where it begins or ends: Dagster guesses its width."""
        if text.holds(*self.points[0]) or text.holds(*self.points[-1]):
            return False
        xs, ys = zip(*self.points, strict=True)
        if max(xs) <= text.left or min(xs) >= text.right or max(ys) <= text.top or min(ys) >= text.bottom:
            return False
        return any(text.holds(x, y) for x, y in self._curve())

    def _curve(self) -> Iterator[tuple[float, float]]:
        a, b, c, d = self.points
        for step in range(_POINTS + 1):
            t = step / _POINTS
            u = 1 - t
            of = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
            yield (
                of[0] * a[0] + of[1] * b[0] + of[2] * c[0] + of[3] * d[0],
                of[0] * a[1] + of[1] * b[1] + of[2] * c[1] + of[3] * d[1],
            )


@dataclass(frozen=True, slots=True)
class Lineage:
    """The graph.

    Attributes:
        texts: All in its nodes that the window shows.
        edges: All that are drawn.
    """

    texts: tuple[Text, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def on(cls, page: Page) -> Lineage:
        """The graph on a page, as it is now."""
        texts, edges = page.evaluate(_READ)
        return cls(
            tuple(Text(*text) for text in texts),
            tuple(Edge(tuple((x, y) for x, y in points)) for points in edges),
        )

    def find(self, words: str) -> Text:
        """The first text with these words."""
        return next(text for text in self.texts if text.words == words)

    def faults(self) -> list[str]:
        """All that makes it hard to read: texts on texts, edges on texts, edges that cross."""
        covered = [
            f"{one.words} stands on {other.words}"
            for one, other in combinations(self.texts, 2)
            if one.node != other.node and one.covers(other)
        ]
        struck = [text.words for text in self.texts if any(edge.runs_over(text) for edge in self.edges)]
        crossed = sum(one.crosses(other) for one, other in combinations(self.edges, 2))
        over = [f"an edge runs over {words}" for words in struck]
        return covered + over + ([f"{crossed} pairs of edges cross"] if crossed else [])
