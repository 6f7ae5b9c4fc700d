"""The "certainly new" filter: a split-block Bloom filter in numpy, on a mapped file, that grows by layers.

A key is the 64-bit hash of a URL's canonical form, keyed with the crawl's secret, so nobody can aim at the filter. It
picks one block of 512 bits and sets one bit in each of its eight words (Putze, Sanders, Singler: Cache-, Hash- and
Space-Efficient Bloom Filters, 2007; the multipliers are odd, their products' top bits choose the bit).

The filter only saves reads of the seen set: where it is wrong, or lost, the insert still tells the truth.
"""

from __future__ import annotations

import errno
import glob
import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mannerly.model.errors import DiskFull

Hashes = Sequence[int] | npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]

BITS_A_KEY: Final = (17, 24, 32)
"""By layer. A miss must miss every layer, so later layers are sparser: the sum stays near 0.1 % (measured in tests)."""

GROWTH: Final = 4
_WORDS: Final = 8
_BLOCK_BITS: Final = 512
_HEAD: Final = struct.Struct("<8sQQQQ")  # magic, token, capacity, count, layers at a clean close or 0
_HEAD_BYTES: Final = 64
_MAGIC: Final = b"mnlyblm1"
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ZEROS: Final = bytes(1 << 20)

_U64 = np.uint64
_MULTIPLIERS: Final = np.array(
    [
        0x47B6137B44974D91,
        0x8824AD5BA2B7289D,
        0x705495C72DF1424B,
        0x9EFC49475C6BFB31,
        0xD6E8FEB86659FD93,
        0xA0761D6478BD642F,
        0xE7037ED1A0B428DB,
        0x8EBC6AF09C88C6E3,
    ],
    dtype=np.uint64,
)
_LANES: Final = np.arange(_WORDS, dtype=np.uint64)


def _blocks(capacity: int, layer: int) -> int:
    bits = BITS_A_KEY[min(layer, len(BITS_A_KEY) - 1)]
    return max(1, -(-capacity * bits // _BLOCK_BITS))


@dataclass(slots=True)
class _Layer:
    """One filter of fixed size. `memory` is None if it is not on a file."""

    words: Words
    blocks: int
    capacity: int
    count: int = 0
    path: Path | None = None
    memory: mmap.mmap | None = None

    def places(self, keys: Words) -> tuple[Words, Words]:
        """Return for each key its eight words and the bit in each."""
        block = ((keys >> _U64(32)) * _U64(self.blocks) >> _U64(32)) * _U64(_WORDS)
        bits = _U64(1) << (((keys | _U64(1))[:, None] * _MULTIPLIERS) >> _U64(58))
        return block[:, None] + _LANES, bits

    def holds(self, keys: Words) -> npt.NDArray[np.bool_]:
        index, bits = self.places(keys)
        found: npt.NDArray[np.bool_] = ((self.words[index] & bits) == bits).all(axis=1)
        return found

    def add(self, keys: Words) -> None:
        index, bits = self.places(keys)
        np.bitwise_or.at(self.words, index.ravel(), bits.ravel())
        self.count += len(keys)


class BloomFilter:
    """Says of 64-bit hashes whether they were certainly never added. Not for two threads at once.

    While `ready` is False the answer is always "maybe": the file was missing, of another crawl, or not closed cleanly,
    and the hashes of the seen set are to be added again, then `complete` called (`rebuild` does both).
    """

    def __init__(self, path: Path | None, capacity: int, token: int) -> None:
        self._path = path
        self._capacity = capacity
        self._token = token
        self._layers: list[_Layer] = []
        self._ready = False

    @classmethod
    def open(cls, path: str | Path | None, capacity: int, *, token: int = 0) -> BloomFilter:
        """Open or make the filter for `capacity` keys; more are taken in further layers (`path`.1, ...).

        path None keeps it in memory; it is then ready, since nothing was ever added. token: 64 bits that must be the
        same at every opening, the crawl's secret say. Memory and disk: about 2 bytes a key. Raises DiskFull; the
        whole file is written at once, because a page of a sparse file that finds the disk full kills the process.
        """
        made = cls(None if path is None else Path(path), capacity, token & 0xFFFF_FFFF_FFFF_FFFF)
        made._ready = made._load()
        if not made._ready:
            made._begin_anew()
            made._ready = path is None
        return made

    def __repr__(self) -> str:
        state = "ready" if self._ready else "answers maybe"
        return f"<BloomFilter {self.count} keys in {len(self._layers)} layers, {state}>"

    @property
    def ready(self) -> bool:
        """False while every answer is "maybe"."""
        return self._ready

    @property
    def count(self) -> int:
        """Keys added, those added twice counted twice."""
        return sum(layer.count for layer in self._layers)

    def certainly_new(self, hashes: Hashes) -> list[bool]:
        """Tell for each hash (0 to 2**64 - 1) whether it was certainly never added."""
        if not self._ready:
            return [False] * len(hashes)
        keys = np.asarray(hashes, dtype=np.uint64)
        maybe = self._layers[-1].holds(keys)
        for layer in self._layers[:-1]:
            maybe |= layer.holds(keys)
        answers: list[bool] = (~maybe).tolist()
        return answers

    def add(self, hashes: Hashes) -> None:
        """Add hashes. Raises DiskFull if a further layer finds no space; nothing is added then."""
        keys = np.asarray(hashes, dtype=np.uint64)
        last = self._layers[-1]
        if last.count + len(keys) > last.capacity and last.count:
            last = self._grow(max(last.capacity * GROWTH, len(keys)))
        last.add(keys)

    def rebuild(self, batches: Iterable[Hashes]) -> None:
        """Add all hashes ever admitted, then answer again. Those added meanwhile are kept."""
        for batch in batches:
            self.add(batch)
        self.complete()

    def complete(self) -> None:
        """Say that every hash admitted was added: from now on the filter answers."""
        self._ready = True

    def close(self) -> None:
        """Write the filter out, and mark it as whole if it is. Not closed, it is rebuilt at the next opening."""
        for layer in self._layers:
            if layer.memory is not None:
                layer.memory.flush()
        for layer in self._layers:
            self._mark(layer, clean=self._ready)
        self._drop_layers()

    def _layer_path(self, number: int) -> Path | None:
        if self._path is None or number == 0:
            return self._path
        return self._path.with_name(f"{self._path.name}.{number}")

    def _grow(self, capacity: int) -> _Layer:
        number = len(self._layers)
        blocks = _blocks(capacity, number)
        path = self._layer_path(number)
        if path is None:
            layer = _Layer(np.zeros(blocks * _WORDS, dtype=np.uint64), blocks, capacity)
        else:
            _allocate(path, blocks)
            layer = _mapped(path, blocks, capacity, 0)
            self._mark(layer, clean=False)
        self._layers.append(layer)
        return layer

    def _begin_anew(self) -> None:
        self._drop_layers()
        if self._path is not None:
            for path in (self._path, *self._path.parent.glob(f"{glob.escape(self._path.name)}.[0-9]*")):
                path.unlink(missing_ok=True)
        self._grow(self._capacity)

    def _load(self) -> bool:
        """Map the files of a clean close, and mark them as in use; False if they are not all there and whole."""
        closed_with: list[int] = []
        while (path := self._layer_path(len(self._layers))) is not None and path.is_file():
            with path.open("rb") as file:
                raw = file.read(_HEAD.size)
            if len(raw) < _HEAD.size:
                return False
            magic, token, capacity, count, layers = _HEAD.unpack(raw)
            closed_with.append(layers)
            blocks = _blocks(capacity, len(self._layers))
            whole = path.stat().st_size == _HEAD_BYTES + blocks * _WORDS * 8
            if magic != _MAGIC or token != self._token or not whole:
                return False
            self._layers.append(_mapped(path, blocks, capacity, count))
        if not closed_with or set(closed_with) != {len(self._layers)}:
            return False
        for layer in self._layers:
            self._mark(layer, clean=False)
        return True

    def _mark(self, layer: _Layer, *, clean: bool) -> None:
        if layer.memory is None:
            return
        head = _HEAD.pack(_MAGIC, self._token, layer.capacity, layer.count, len(self._layers) if clean else 0)
        layer.memory[: len(head)] = head
        layer.memory.flush(0, min(mmap.PAGESIZE, len(layer.memory)))

    def _drop_layers(self) -> None:
        layers, self._layers, self._ready = self._layers, [], False
        for layer in layers:
            memory, layer.memory = layer.memory, None
            layer.words = np.zeros(0, dtype=np.uint64)
            if memory is not None:
                memory.close()


def _allocate(path: Path, blocks: int) -> None:
    size = _HEAD_BYTES + blocks * _WORDS * 8
    try:
        with path.open("wb") as file:
            for start in range(0, size, len(_ZEROS)):
                file.write(_ZEROS[: size - start])
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if error.errno in _NO_SPACE:
            raise DiskFull(f"no space is left for {path} of {size} bytes", hint="make space") from error
        raise


def _mapped(path: Path, blocks: int, capacity: int, count: int) -> _Layer:
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    words = np.frombuffer(memory, dtype=np.uint64, count=blocks * _WORDS, offset=_HEAD_BYTES)
    return _Layer(words, blocks, capacity, count, path, memory)
