"""Where a stash stands on a Valkey server, and what has to happen there in one go.

All keys of a stash carry the same hash tag, so that a cluster keeps them together.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

PUT: Final = """
for at = 1, #ARGV, 3 do
  local kept = redis.call('HGET', KEYS[2], ARGV[at])
  if kept and kept ~= ARGV[at + 1] then return 0 end
  if redis.call('HEXISTS', KEYS[3], ARGV[at]) == 1 then return 0 end
end
local log = KEYS[1] .. redis.call('HGET', KEYS[4], 'log')
for at = 1, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[2], ARGV[at], ARGV[at + 1]) == 1 then
    redis.call('RPUSH', log, ARGV[at + 2])
  end
end
return 1
"""
"""Keeps handles, lines and heads, unless a handle means something else meanwhile."""

REMOVE: Final = """
local removed = 0
local log = KEYS[1] .. redis.call('HGET', KEYS[4], 'log')
for at = 1, #ARGV, 2 do
  if redis.call('HDEL', KEYS[2], ARGV[at]) == 1 then
    removed = removed + 1
    redis.call('HSET', KEYS[3], ARGV[at], 'removed')
    redis.call('RPUSH', log, ARGV[at + 1])
  end
end
return removed
"""

SWITCH: Final = """
if redis.call('HGET', KEYS[4], 'log') ~= ARGV[1] then return -1 end
local length = redis.call('LLEN', KEYS[1] .. ARGV[1])
if length ~= tonumber(ARGV[3]) then return length end
redis.call('HSET', KEYS[4], 'log', ARGV[2])
redis.call('DEL', KEYS[1] .. ARGV[1])
return -2
"""
"""Puts a compacted log in the place of one that has not grown meanwhile."""

ADD: Final = """
for at = 1, #ARGV, 2 do
  redis.call('APPEND', KEYS[1] .. ARGV[at], ARGV[at + 1])
  redis.call('ZADD', KEYS[2], 0, ARGV[at])
end
"""
"""Adds postings: as commands of their own they would take ten times as long."""

SHRINK: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
"""
"""Replaces postings that have not grown meanwhile."""

NEWEST: Final = 50_000
"""Of each term, the newest postings are fetched."""
_POSTING_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of a stash's keys."""

    name: str

    @property
    def four(self) -> list[str]:
        """What the scripts are given: the start of a log's name, records, gone handles, facts."""
        return [self.log(""), self.records, self.gone, self.facts]

    @property
    def records(self) -> str:
        """Handle to line."""
        return f"jaato:{{{self.name}}}:records"

    @property
    def gone(self) -> str:
        """Handle to fate."""
        return f"jaato:{{{self.name}}}:gone"

    @property
    def facts(self) -> str:
        """Version, key, and the name of the log."""
        return f"jaato:{{{self.name}}}:facts"

    @property
    def numbers(self) -> str:
        """The last number that a record was given."""
        return f"jaato:{{{self.name}}}:numbers"

    @property
    def terms(self) -> str:
        """All terms, in their order."""
        return f"jaato:{{{self.name}}}:terms"

    def log(self, name: str) -> str:
        """What was put and removed, one after the other."""
        return f"jaato:{{{self.name}}}:log:{name}"

    def postings(self, term: str) -> str:
        """The postings of a term, four bytes each."""
        return f"jaato:{{{self.name}}}:p:{term}"


def packed(postings: Sequence[int]) -> bytes:
    """Postings as they stand on the server."""
    numbers = array("I", postings)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpacked(data: bytes) -> Sequence[int]:
    """Postings from the server; what is not a whole one is left out."""
    numbers = array("I", data[: len(data) // _POSTING_BYTES * _POSTING_BYTES])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class ServerPart:
    """The index on the server, as one part. Asks in few round trips."""

    base = 0

    def __init__(self, client: Any, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def existing(self, terms: Iterable[str]) -> dict[str, int]:
        """Those terms that are there, and how many texts have each."""
        asked = list(terms)
        pipe = self._client.pipeline(transaction=False)
        for term in asked:
            pipe.strlen(self._keys.postings(term))
        lengths = pipe.execute() if asked else []
        return {
            term: length // _POSTING_BYTES
            for term, length in zip(asked, lengths, strict=True)
            if length
        }

    def beginning(self, start: str, most: int) -> dict[str, int]:
        """Terms that begin so."""
        first = start.encode()
        found = self._client.zrangebylex(
            self._keys.terms, b"[" + first, b"[" + first + b"\xff", start=0, num=most
        )
        return self.existing([term.decode() for term in found])

    def postings(self, term: str) -> Sequence[int]:
        """The postings of a term, largest first."""
        key = self._keys.postings(term)
        data = self._client.getrange(key, -NEWEST * _POSTING_BYTES, -1)
        return sorted(unpacked(data), reverse=True)

    def everything(self) -> Iterator[list[tuple[str, bytes]]]:
        """All terms and their postings as they stand there, some at a time."""
        cursor = -1
        while cursor != 0:
            cursor, found = self._client.zscan(self._keys.terms, max(cursor, 0), count=1_000)
            terms = [term.decode() for term, _ in found]
            pipe = self._client.pipeline(transaction=False)
            for term in terms:
                pipe.get(self._keys.postings(term))
            yield [(term, data or b"") for term, data in zip(terms, pipe.execute(), strict=True)]
