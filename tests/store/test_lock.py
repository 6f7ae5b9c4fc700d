"""Locks between processes: a state folder has one coordinator, a host one crawl of a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mannerly.model.errors import ConfigRefused, StateDamaged, StateInUse
from mannerly.store.lock import (
    HostLocks,
    StateLock,
    file_system,
    folder_is_local,
    lock_name,
    user_folder,
)

HOLD = """
import sys
from mannerly.store.lock import {kind}
lock = {make}
lock.acquire({arguments})
print("held", flush=True)
sys.stdin.read()
"""


def no_sleep(_: float) -> None:
    pass


def holding(kind: str, make: str, arguments: str = "", **pipes: object) -> subprocess.Popen[bytes]:
    """Start a process that takes a lock and holds it until its stdin closes."""
    code = HOLD.format(kind=kind, make=make, arguments=arguments)
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    return child


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}


def end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


@pytest.mark.slow
def test_a_second_process_cannot_open_the_state_and_learns_who_has_it(tmp_path: Path) -> None:
    child = holding("StateLock", f"StateLock({str(tmp_path)!r})")
    try:
        with pytest.raises(StateInUse, match=f"process {child.pid} holds") as refused:
            StateLock(tmp_path).acquire(wait_s=0.2, sleep=no_sleep)
        assert refused.value.hint
        holder = StateLock(tmp_path).holder()
        assert holder is not None
        assert holder.pid == child.pid
    finally:
        end(child)
    assert StateLock(tmp_path).holder() is None
    with StateLock(tmp_path):
        pass


@pytest.mark.slow
def test_i5_the_lock_stays_with_a_worker_that_outlives_its_coordinator(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    lock.acquire()
    worker = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=lock.fds
    )
    lock.release()
    try:
        with pytest.raises(StateInUse):
            StateLock(tmp_path).acquire(wait_s=0, sleep=no_sleep)
        slept: list[float] = []

        def worker_ends_meanwhile(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                end(worker)

        StateLock(tmp_path).acquire(wait_s=10, sleep=worker_ends_meanwhile)
        assert len(slept) == 3
    finally:
        end(worker)


def test_the_lock_is_waited_for_ten_seconds(tmp_path: Path) -> None:
    slept: list[float] = []
    with StateLock(tmp_path), pytest.raises(StateInUse, match=str(os.getpid())):
        StateLock(tmp_path).acquire(sleep=slept.append)
    assert sum(slept) == pytest.approx(10.0)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateDamaged, match="nowhere"):
        StateLock(tmp_path / "nowhere").acquire()


@pytest.mark.slow
def test_a_second_crawl_of_a_host_learns_who_crawls_it_and_holds_none(tmp_path: Path) -> None:
    make = f"HostLocks('/data/crawl-b', folder=__import__('pathlib').Path({str(tmp_path)!r}))"
    child = holding("HostLocks", make, "['b.test']")
    try:
        mine = HostLocks("/data/mine", folder=tmp_path)
        with pytest.raises(StateInUse, match=rf"process {child.pid} is crawling b\.test .*/data/crawl-b"):
            mine.acquire(["a.test", "b.test"], wait_s=0.1, sleep=no_sleep)
        assert mine.fds == ()
        other = HostLocks("/data/other", folder=tmp_path)
        other.acquire(["a.test", "c.test", "b.test:8080", "a.test"])
        assert len(other.fds) == 3
        other.release()
    finally:
        end(child)


@pytest.mark.parametrize("name", ["a.test", "[::1]:8080", "../../etc/passwd", "x" * 253, "bücher.test", "."])
def test_any_host_name_makes_a_plain_file_name(name: str) -> None:
    made = lock_name(name)
    assert "/" not in made
    assert made not in {".", ".."}
    assert len(made.encode()) <= 255


def test_different_long_names_make_different_files() -> None:
    assert lock_name("x" * 252 + "a") != lock_name("x" * 252 + "b")


def test_host_locks_lie_in_the_runtime_folder_or_one_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    assert user_folder({"XDG_RUNTIME_DIR": str(tmp_path / "run")}) == tmp_path / "run" / "mannerly"
    expected = tmp_path / "tmp" / f"mannerly-{os.getuid()}"
    for missing in ("", str(tmp_path / "gone")):
        assert user_folder({"XDG_RUNTIME_DIR": missing}) == expected
    assert expected.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trick", ["open mode", "link", "file"])
def test_a_folder_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"mannerly-{os.getuid()}"
    match trick:
        case "open mode":
            folder.mkdir()
            folder.chmod(0o777)
        case "link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "elsewhere")
        case "file":
            folder.write_text("")
    with pytest.raises(ConfigRefused) as refused:
        user_folder({})
    assert refused.value.hint


def test_a_lock_file_is_not_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / lock_name("a.test")).symlink_to(tmp_path / "target")
    with pytest.raises(StateDamaged):
        HostLocks("/data", folder=tmp_path).acquire(["a.test"])
    assert not (tmp_path / "target").exists()


MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
host:/x /mnt/with\040space fuse.sshfs rw 0 0
tmpfs /home/local tmpfs rw 0 0
torn
"""


@pytest.mark.parametrize(
    ("folder", "kind", "local"),
    [
        ("/var/crawl", "ext4", True),
        ("/home/me/crawl", "nfs4", False),
        ("/homely", "ext4", True),
        ("/home/local/crawl", "tmpfs", True),  # the later mount lies on top
        ("/mnt/with space/crawl", "fuse.sshfs", False),
    ],
)
def test_a_folder_on_a_network_file_system_is_told(
    tmp_path: Path, folder: str, kind: str, local: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert file_system(folder, mounts=mounts) == kind
    assert folder_is_local(folder, mounts=mounts) is local


def test_without_a_list_of_mounts_nobody_knows(tmp_path: Path) -> None:
    assert folder_is_local(tmp_path, mounts=tmp_path / "none") is None
