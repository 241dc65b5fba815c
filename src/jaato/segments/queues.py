"""Who is due first: for each class of equal static score, a heap by last touch.

Within a class the order of scores is the order of last touches, whatever the time: recency falls
with age for all alike. So the lowest score of all is that of a head, and no clock moves an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

Kin = tuple[int, int, int]
"""A class: type, references up to the most that count, the collection that makes it old or 0."""

Due = tuple[float, float, str, int, Kin]
"""Score, last touch, id, number, class. The first three are the total order of a sweep."""


class Queues:
    """Numbers by class and key; the key of a number changes only while it is out."""

    def __init__(self, ids: list[str], keys: list[float]) -> None:
        self.heaps: dict[Kin, list[int]] = {}
        self._ids = ids
        self._keys = keys
        self._kin: list[Kin | None] = []
        self._at: list[int] = []

    def kin(self, number: int) -> Kin | None:
        """The class in which it waits, if it does."""
        return self._kin[number] if number < len(self._kin) else None

    def put(self, number: int, kin: Kin) -> None:
        """Let a number wait. O(log n), O(1) where it was touched last of all."""
        missing = number + 1 - len(self._kin)
        if missing > 0:
            self._kin.extend([None] * missing)
            self._at.extend([-1] * missing)
        assert self._kin[number] is None
        heap = self.heaps.get(kin)
        if heap is None:
            heap = self.heaps[kin] = []
        self._kin[number] = kin
        heap.append(number)
        self._rise(heap, len(heap) - 1)

    def take(self, number: int) -> None:
        """Let a number wait no longer, if it did. O(log n)."""
        kin = self.kin(number)
        if kin is None:
            return
        self._kin[number] = None
        heap, at = self.heaps[kin], self._at[number]
        last = heap.pop()
        if last != number:
            heap[at] = last
            self._at[last] = at
            self._sink(heap, at)
            self._rise(heap, self._at[last])
        if not heap:
            del self.heaps[kin]

    def fill(self, waiting: Iterable[tuple[int, Kin]], size: int) -> None:
        """Replace everything, at the cost of one sort."""
        self.heaps.clear()
        self._kin[:] = [None] * size
        self._at[:] = [-1] * size
        for number, kin in waiting:
            self._kin[number] = kin
            heap = self.heaps.get(kin)
            if heap is None:
                heap = self.heaps[kin] = []
            heap.append(number)
        for heap in self.heaps.values():
            self._sort(heap)
            for at, number in enumerate(heap):
                self._at[number] = at

    def _sort(self, heap: list[int]) -> None:
        # Most came in the order of their keys, and few keys are equal: the sort by key finds almost
        # nothing to do, and only what is equal is sorted by id.
        ids, keys = self._ids, self._keys
        heap.sort(key=keys.__getitem__)
        start = 0
        for at in range(1, len(heap) + 1):
            if at == len(heap) or keys[heap[at]] != keys[heap[start]]:
                if at - start > 1:
                    heap[start:at] = sorted(heap[start:at], key=ids.__getitem__)
                start = at

    def promote(self, collection: int) -> None:
        """Let what becomes old at this collection, or became it before, wait among the old."""
        due = [kin for kin in self.heaps if 0 < kin[2] <= collection]
        for kin in due:
            for number in self.heaps.pop(kin):
                self._kin[number] = None
                self.put(number, (kin[0], kin[1], 0))

    def lowest(self, score: Callable[[Kin, float], float]) -> Iterator[Due]:
        """All numbers, the lowest score first, without changing anything.

        The first k cost O(classes + k log k): each heap is walked down from its head.
        """
        keys, ids = self._keys, self._ids
        front: list[tuple[float, float, str, int, Kin, int]] = []
        for kin, heap in self.heaps.items():
            number = heap[0]
            key = keys[number]
            front.append((score(kin, key), key, ids[number], number, kin, 0))
        heapify(front)
        while front:
            due, key, segment_id, number, kin, at = heappop(front)
            yield due, key, segment_id, number, kin
            heap = self.heaps[kin]
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    below = heap[child]
                    key = keys[below]
                    heappush(front, (score(kin, key), key, ids[below], below, kin, child))

    def _rise(self, heap: list[int], at: int) -> None:
        keys, ids, where = self._keys, self._ids, self._at
        number = heap[at]
        key = keys[number]
        while at:
            up = (at - 1) >> 1
            parent = heap[up]
            other = keys[parent]
            if other < key or (other == key and ids[parent] < ids[number]):
                break
            heap[at] = parent
            where[parent] = at
            at = up
        heap[at] = number
        where[number] = at

    def _sink(self, heap: list[int], at: int) -> None:
        keys, ids, where = self._keys, self._ids, self._at
        number, size = heap[at], len(heap)
        key = keys[number]
        while (down := 2 * at + 1) < size:
            child = heap[down]
            other = keys[child]
            if down + 1 < size:
                right = heap[down + 1]
                if keys[right] < other or (keys[right] == other and ids[right] < ids[child]):
                    down, child, other = down + 1, right, keys[right]
            if key < other or (key == other and ids[number] < ids[child]):
                break
            heap[at] = child
            where[child] = at
            at = down
        heap[at] = number
        where[number] = at
