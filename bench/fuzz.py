"""Throw hostile bytes at each place where bytes of others come in, and see what breaks.

    python bench/fuzz.py --seconds 60                            # all targets, a fair share of the time each
    python bench/fuzz.py --seconds 600 --target page --seed 7
    python bench/fuzz.py --seconds 60 --engine atheris           # guided by coverage, where atheris is installed

Inputs are mutations of tests/fuzz/corpus/TARGET/; one that brings about something new is mutated further. A fault is an
exception that is not documented (or a broken promise), over 2 s of CPU, over 400 MiB more memory, or the end of the
process. Each is made smaller and saved under --found; once it is mended it belongs in the corpus, which the tests replay.
Prints a line a target, then the faults; exits 1 if there are any. Linux and macOS.
"""

from __future__ import annotations

import argparse
import importlib
import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from bench.mutation import MAX_BYTES, mutated, smaller  # noqa: E402 - a script finds its own project first

if TYPE_CHECKING:
    from bench.fuzz_targets import Target

CORPUS: Final = ROOT / "tests" / "fuzz" / "corpus"
FOUND: Final = "fuzz-found"
MAX_CPU_S: Final = 2.0
MAX_GROWTH_BYTES: Final = 400 << 20
# what the operating system ends: a call that does not come back, an allocation without end
HANG_CPU_S: Final = 30.0
ADDRESS_SPACE_BYTES: Final = 4 << 30
MAX_POOL: Final = 4_000
MAX_KEPT_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong. `kind` and `place` tell faults apart; `detail` is for the reader."""

    kind: str
    place: str
    detail: str


@dataclass(slots=True)
class Tally:
    """What came of one target. `faults`: each with the input that brings it about, the first of its kind and place."""

    tried: int = 0
    shapes: int = 0
    cpu_s: float = 0.0
    faults: dict[Fault, bytes] = field(default_factory=dict)

    def add(self, fault: Fault, data: bytes) -> bool:
        """Add a fault; False if one of its kind and place is known."""
        if any((fault.kind, fault.place) == (known.kind, known.place) for known in self.faults):
            return False
        self.faults[fault] = data
        return True


def attempt(target: Target, data: bytes) -> tuple[Hashable, Fault | None]:
    """Try one input; return the shape of what came of it, and the fault if it is one."""
    before_bytes, begun_s = _peak_bytes(), time.process_time()
    try:
        shape = target.check(data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        return None, Fault(type(error).__name__, _place(error), str(error)[:200])
    cpu_s, growth = time.process_time() - begun_s, _peak_bytes() - before_bytes
    if cpu_s > MAX_CPU_S:
        return shape, Fault("slow", "", f"{cpu_s:.1f} s of CPU for {len(data)} bytes")
    if growth > MAX_GROWTH_BYTES:
        return shape, Fault("memory", "", f"{growth >> 20} MiB for {len(data)} bytes")
    return shape, None


def seeds(name: str) -> list[bytes]:
    """Return the corpus of a target, in the order of the files' names."""
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


class Slate:
    """What a fuzzing process writes down before each input, so that it is known after its death."""

    def __init__(self, path: Path) -> None:
        with path.open("ab") as file:
            file.truncate(16 + MAX_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 16 + MAX_BYTES)

    def put(self, tried: int, data: bytes) -> None:
        self._map[:16] = tried.to_bytes(8, "big") + len(data).to_bytes(8, "big")
        self._map[16 : 16 + len(data)] = data

    @property
    def tried(self) -> int:
        return int.from_bytes(self._map[:8], "big")

    @property
    def data(self) -> bytes:
        return self._map[16 : 16 + int.from_bytes(self._map[8:16], "big")]


class Fuzzer:
    """Mutates inputs of one target. The same seed tries the same inputs, as long as the target is the same."""

    def __init__(self, name: str, target: Target, seed: int, slate: Slate | None = None) -> None:
        self.tally = Tally()
        self._target = target
        self._chance = random.Random(f"{name} {seed}")
        self._pool = seeds(name)
        self._first = list(self._pool) or [b""]
        self._shapes: set[Hashable] = set()
        self._slate = slate

    def run(self, *, seconds: float = float("inf"), count: float = float("inf")) -> Tally:
        """Try the corpus, then mutations, until the time or the count is over."""
        until_s = time.monotonic() + seconds
        for data in self._first:
            self.one(data)
        while self.tally.tried < count and time.monotonic() < until_s:
            pool = self._pool or self._first
            # the youngest finds are the least explored
            start = pool[-1 - min(int(self._chance.expovariate(1 / 200)), len(pool) - 1)]
            start = self._chance.choice(pool) if self._chance.random() < 0.6 else start
            self.one(mutated(self._chance, start, pool, self._target.words))
        return self.tally

    def one(self, data: bytes) -> None:
        """Try one input, keep it if it is new, note the fault if it is one."""
        tally = self.tally
        tally.tried += 1
        if self._slate is not None:
            self._slate.put(tally.tried, data)
            signal.setitimer(signal.ITIMER_PROF, HANG_CPU_S)
        begun_s = time.process_time()
        shape, fault = attempt(self._target, data)
        tally.cpu_s += time.process_time() - begun_s
        if fault is not None:
            tally.add(fault, data)
        elif shape not in self._shapes and len(data) <= MAX_KEPT_BYTES and len(self._pool) < MAX_POOL:
            self._shapes.add(shape)
            self._pool.append(data)
        tally.shapes = len(self._shapes)


def minimised(target: Target, fault: Fault, data: bytes) -> bytes:
    """Return a smaller input with the same fault. Not for what ends the process."""

    def same(shorter: bytes) -> bool:
        again = attempt(target, shorter)[1]
        return again is not None and (again.kind, again.place) == (fault.kind, fault.place)

    return smaller(data, same, tries=30 if fault.kind == "slow" else 400)


def _place(error: BaseException) -> str:
    """Return where our code stood: the last line of the package, else of the target."""
    stack = traceback.extract_tb(error.__traceback__)
    ours = [at for at in stack if "/mannerly/" in at.filename] or stack
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}"


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1_024


# The process that fuzzes, and the one that watches it


def inside(options: argparse.Namespace) -> None:
    """Fuzz one target in this process and print the tally as JSON; the watcher reads the slate if that fails."""
    (name,) = options.target
    slate = Slate(Path(options.inside))
    if options.engine == "atheris":
        _by_coverage(name, slate, options)
        return
    _limit_memory()
    target = _targets()[name]
    tally = Fuzzer(name, target, options.seed, slate).run(seconds=options.seconds)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _tell(tally, target, options)


def _targets() -> dict[str, Target]:
    module: Any = importlib.import_module("bench.fuzz_targets")
    targets: dict[str, Target] = module.TARGETS
    return targets


def _limit_memory() -> None:
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


def _tell(tally: Tally, target: Target, options: argparse.Namespace) -> None:
    faults = []
    for fault, data in tally.faults.items():
        path = _save(options, minimised(target, fault, data), fault)
        faults.append([fault.kind, fault.place, fault.detail, str(path)])
    print(json.dumps({"tried": tally.tried, "shapes": tally.shapes, "faults": faults}), flush=True)


def _save(options: argparse.Namespace, data: bytes, fault: Fault) -> Path:
    folder = Path(options.found, options.target[0])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{fault.kind.lower()}-{blake2b(data, digest_size=4).hexdigest()}"
    path.write_bytes(data)
    return path


def _by_coverage(name: str, slate: Slate, options: argparse.Namespace) -> None:
    """Let atheris choose the inputs. It ends the process itself, so the tally is told before."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["mannerly"]):
        target = _targets()[name]
    fuzzer = Fuzzer(name, target, options.seed, slate)
    until_s = time.monotonic() + options.seconds

    def one(data: bytes) -> None:
        if time.monotonic() >= until_s:
            signal.setitimer(signal.ITIMER_PROF, 0)
            _tell(fuzzer.tally, target, options)
            os._exit(0)
        fuzzer.one(data[:MAX_BYTES])

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        words = Path(folder, "words")
        words.write_text(
            "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words)
        )
        flags = [f"-seed={options.seed + 1}", "-max_len=65536", "-rss_limit_mb=0", "-timeout=60"]
        if target.words:
            flags.append(f"-dict={words}")
        (new := Path(folder, "new")).mkdir()  # libFuzzer writes to the first folder
        atheris.Setup([name, *flags, str(new), str(CORPUS / name)], one)
        atheris.Fuzz()


def watched(name: str, seconds: float, options: argparse.Namespace) -> tuple[int, int, list[list[str]]]:
    """Fuzz one target in a process of its own; return inputs tried, shapes seen, and faults. Goes on after a death."""
    tried, shapes = 0, 0
    faults: list[list[str]] = []
    until_s, seed = time.monotonic() + seconds, options.seed
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        while (left_s := until_s - time.monotonic()) > 0:
            path = Path(folder, f"slate-{seed}")
            command = [sys.executable, __file__, "--inside", str(path), "--target", name, "--seed", str(seed)]
            command += ["--seconds", f"{left_s:.1f}", "--found", options.found, "--engine", options.engine]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0 and done.stdout:
                told = json.loads(done.stdout.splitlines()[-1])
                return tried + told["tried"], max(shapes, told["shapes"]), faults + told["faults"]
            slate = Slate(path)
            if not slate.tried:
                raise SystemExit(f"{name} does not start: {done.stderr.decode(errors='replace')[-2_000:]}")
            tried += slate.tried
            kind = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
            why = (
                "a call that does not come back"
                if kind == "SIGPROF"
                else done.stderr.decode(errors="replace")[-200:]
            )
            single = argparse.Namespace(found=options.found, target=[name])
            faults.append([kind, "", why, str(_save(single, slate.data, Fault(kind, "", why)))])
            seed += 1_000
    return tried, shapes, faults


def main(arguments: Iterable[str] | None = None) -> int:
    """Fuzz the targets one after the other; print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument(
        "--target", action="append", help="one of the targets; may be given again (default: all)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("own", "atheris"), default="own")
    parser.add_argument("--found", default=FOUND, help=f"folder for inputs that fail (default {FOUND})")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.inside:
        inside(options)
        return 0
    targets = _targets()
    names = options.target or list(targets)
    if unknown := [name for name in names if name not in targets]:
        parser.error(f"no target {unknown[0]}; there are {', '.join(targets)}")
    whole = sum(targets[name].cost for name in names)
    all_tried = 0
    all_faults: list[tuple[str, ...]] = []
    for name in names:
        tried, shapes, faults = watched(name, options.seconds * targets[name].cost / whole, options)
        print(f"{name:10} {tried:9,} inputs  {shapes:5} shapes  {len(faults)} faults", flush=True)
        all_tried += tried
        all_faults += [(name, *fault) for fault in faults]
    for name, kind, place, detail, path in all_faults:
        print(f"{name}: {kind} {place}\n    {detail}\n    {path}")
    print(f"{all_tried:,} inputs, {len(all_faults)} faults")
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
