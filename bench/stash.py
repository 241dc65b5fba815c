"""The file stash beside sqlite3 with FTS5, the same records in the same run: for `make bench`.

append  records a second, a hundred at a time, each hundred durable before the next; of ten equal
        pieces of the work the one that was disturbed least
get     99 of 100 by handle, in ms
search  95 of 100 queries of one to four words, a quarter with typing errors, in ms
index   what the first search after so many appends costs, in microseconds a record
open    seconds until the first record is read, index and catalogue as they were left; and from the
        log alone
memory  bytes of the process a record, beyond the files that are mapped
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from jaato.kept import Record
from jaato.stash.files import FileStash

RECORDS = 100_000
GROUP = 100
GETS = 2_000
QUERIES = 300
BUDGETS = {
    "append": 20_000.0,
    "get": 1.0,
    "search": 50.0,
    "open": 2.0,
    "memory": 400.0,
}
Row = dict[str, float]


def texts(count: int) -> Iterator[str]:
    """Texts of 2 KB like an agent's: some lines of a log, some of code, with names and numbers."""
    rng = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    names = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 5) for rank in range(len(names))))
    for number in range(count):
        words = iter(rng.choices(names, cum_weights=weights, k=400))
        lines: list[str] = [f"record_{number} of {next(words)}"]
        size = 0
        while size < 2_000:
            one, two, three = next(words), next(words), next(words)
            at = rng.randint(1, 900)
            line = rng.choice(
                (
                    f"2026-11-{at % 30:02} INFO {one} {two} {three} took {number % 977} ms",
                    f"src/{one}/{two}.py:{at}: error: {three} is not {next(words)}",
                    f"    {one}_{two} = self.{three}{next(words).title()}({rng.randint(0, 99)})",
                    f"{one} {two} {three} {next(words)} {next(words)} {next(words)}.",
                )
            )
            lines.append(line)
            size += len(line) + 1
        yield "\n".join(lines)


def queries(sample: Sequence[str], rng: random.Random) -> list[str]:
    """What somebody who remembers a little would ask."""
    asked = []
    for number in range(QUERIES):
        words = rng.choice(sample).replace("\n", " ").split()
        query = rng.sample(words, rng.randint(1, 4))
        if number % 4 == 0:
            word = max(query, key=len)
            at = len(word) // 2
            query[query.index(word)] = word[:at] + word[at + 1 :]
        if any(char.isalnum() for char in "".join(query)):
            asked.append(" ".join(query))
    return asked


def batched(items: Iterator[str], size: int) -> Iterator[list[str]]:
    """So many at a time."""
    while group := list(islice(items, size)):
        yield group


class Sqlite:
    """The same work for sqlite3: WAL, every commit synced, FTS5 with its ranking."""

    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(folder / "stash.db")
        run = self.connection.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        run("CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, handle TEXT, text TEXT)")
        run("CREATE UNIQUE INDEX IF NOT EXISTS handles ON records (handle)")
        run(
            "CREATE VIRTUAL TABLE IF NOT EXISTS words"
            " USING fts5(text, content=records, content_rowid=id)"
        )

    def put(self, texts: Sequence[str], first: int) -> None:
        """Records only: like ours, the index is built afterwards."""
        rows = [(first + at, f"h{first + at}", text) for at, text in enumerate(texts)]
        with self.connection as connection:
            connection.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)

    def index(self) -> None:
        """Index all at once."""
        with self.connection as connection:
            connection.execute("INSERT INTO words(words) VALUES ('rebuild')")

    def get(self, handle: str) -> str:
        """One text."""
        found = self.connection.execute("SELECT text FROM records WHERE handle = ?", (handle,))
        return str(found.fetchone()[0])

    def search(self, query: str) -> list[Any]:
        """The best ten with an excerpt; any of the words, as ours."""
        words = "".join(char if char.isalnum() else " " for char in query).split()
        match = " OR ".join(f'"{word}"' for word in words)
        return self.connection.execute(
            "SELECT rowid, snippet(words, 0, '', '', '', 30) FROM words"
            " WHERE words MATCH ? ORDER BY rank LIMIT 10",
            (match,),
        ).fetchall()


@contextmanager
def timed(row: Row, name: str, scale: Callable[[float], float]) -> Iterator[None]:
    """Note what took so long."""
    gc.collect()
    began = time.perf_counter()
    yield
    row[name] = scale(time.perf_counter() - began)


def share(figures: Sequence[float], part: float) -> float:
    """The figure that this part of all stays below."""
    return sorted(figures)[min(int(part * len(figures)), len(figures) - 1)]


def best_rate(took: Sequence[float]) -> float:
    """Records a second in the best tenth of the work."""
    tenth = max(len(took) // 10, 1)
    return max(
        GROUP * len(piece) / sum(piece)
        for piece in (took[at : at + tenth] for at in range(0, len(took), tenth))
    )


def each(work: Callable[[Any], object], items: Sequence[Any], part: float) -> float:
    """How long this part of the calls stays below, in ms."""
    took = []
    for item in items:
        began = time.perf_counter()
        work(item)
        took.append((time.perf_counter() - began) * 1e3)
    return share(took, part)


def ours(folder: Path, count: int, asked: Sequence[str]) -> Row:
    """The file stash."""
    row: Row = {}
    stash = FileStash(folder / "stash")
    handles: list[str] = []
    took: list[float] = []
    for first, group in enumerate(batched(texts(count), GROUP)):
        records = [
            Record(
                text=text,
                type="log",
                session=f"session {first // 20}",
                turn=first % 20,
                tool="bash",
                files=(f"src/module_{first % 300}.py",),
                created_at=1.7e9 + first,
            )
            for text in group
        ]
        began = time.perf_counter()
        handles += stash.put(records)
        took.append(time.perf_counter() - began)
    row["append"] = best_rate(took)
    sample = random.Random(1).sample(handles, min(GETS, count))
    row["get"] = each(stash.get, sample, 0.99)
    with timed(row, "index", lambda took: took / count * 1e6):
        stash.search("warm")
    row["search"] = each(stash.search, asked, 0.95)
    stash.close()
    with timed(row, "open", float):
        stash = FileStash(folder / "stash")
        stash.get(handles[-1])
    with timed(row, "first search", lambda took: took * 1e3):
        stash.search(asked[0])
    stash.close()
    del stash
    (folder / "stash" / "catalogue").unlink(missing_ok=True)
    with timed(row, "open (log)", float):
        stash = FileStash(folder / "stash")
        stash.get(handles[-1])
    with timed(row, "compact", float):
        stash.compact()
    stash.close()
    del stash, handles
    gc.collect()
    tracemalloc.start()
    stash = FileStash(folder / "stash")
    row["memory"] = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    stash.close()
    return row


def theirs(folder: Path, count: int, asked: Sequence[str]) -> Row:
    """Sqlite."""
    row: Row = {}
    database = Sqlite(folder)
    took: list[float] = []
    for number, group in enumerate(batched(texts(count), GROUP)):
        began = time.perf_counter()
        database.put(group, number * GROUP)
        took.append(time.perf_counter() - began)
    row["append"] = best_rate(took)
    sample = [f"h{number}" for number in random.Random(1).sample(range(count), min(GETS, count))]
    row["get"] = each(database.get, sample, 0.99)
    with timed(row, "index", lambda took: took / count * 1e6):
        database.index()
    row["search"] = each(database.search, asked, 0.95)
    database.connection.close()
    with timed(row, "open", float):
        database = Sqlite(folder)
        database.get("h0")
    with timed(row, "first search", lambda took: took * 1e3):
        database.search(asked[0])
    with timed(row, "compact", float):
        database.connection.execute("VACUUM")
    database.connection.close()
    return row


def main() -> int:
    """Print the table, or JSON; 1 where a figure is not held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    count = arguments.records
    asked = queries(list(texts(min(count, 2_000))), random.Random(3))
    with tempfile.TemporaryDirectory() as folder:
        us, them = ours(Path(folder), count, asked), theirs(Path(folder), count, asked)
    if arguments.json:
        print(json.dumps({"records": count, "stash": us, "sqlite": them}))
    else:
        print(f"stash, {count:,} records of 2 KB            stash       sqlite3 + FTS5   ratio")
        for name, figure in us.items():
            other = them.get(name)
            beside = "" if other is None else f"{other:>14,.4g}   {figure / other:8.2f} x"
            budget = BUDGETS.get(name)
            sign = ">=" if name == "append" else "<="
            print(
                f"  {name:<14}{'' if budget is None else f'{sign} {budget:,.0f}':<12}"
                f"{figure:>16,.4g}  {beside}"
            )
    held = us["append"] >= BUDGETS["append"] and all(
        us[name] <= budget for name, budget in BUDGETS.items() if name != "append"
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
