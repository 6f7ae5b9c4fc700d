"""Loops that are told to end do end, whatever happens in that very instant: otherwise a crawl never would."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from mannerly.coordinator.dispatch import Dispatch
from mannerly.coordinator.intake import Intake
from mannerly.coordinator.settle import FrameFacts, Seeds, Settle
from mannerly.model.config import SettleConfig
from mannerly.testing import ManualClock

NOBODY: Any = None


async def ends(task: asyncio.Task[None]) -> bool:
    """Tell whether a cancelled task ends, and end the test's part of it in any case."""
    done, _ = await asyncio.wait({task}, timeout=0.2)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    return bool(done) and task.cancelled()


@pytest.mark.parametrize("steps", range(6))
async def test_settling_ends_though_it_is_hurried_in_the_same_instant(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` forgets a cancellation that comes with the event it waits for (CPython gh-86296)."""

    async def settled(_self: Settle, _items: object) -> None:
        return

    monkeypatch.setattr(Settle, "settle", settled)
    settle = Settle(
        store=NOBODY,
        journal=NOBODY,
        transport=NOBODY,
        intake=cast(Intake, NOBODY),
        clock=ManualClock(),
        config=SettleConfig(batch_s=60, batch_results=2),
        facts=FrameFacts("c", "mannerly"),
        told=NOBODY,
    )
    task = asyncio.create_task(settle.run())
    settle.put(Seeds((), asyncio.Event()))
    await asyncio.sleep(0.005)
    settle.hurry()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    assert await ends(task)


@pytest.mark.parametrize("steps", range(6))
async def test_dispatch_ends_though_something_changes_in_the_same_instant(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_due(_self: Dispatch) -> float:
        return 60.0

    monkeypatch.setattr(Dispatch, "_send_due", nothing_due)
    dispatch = object.__new__(Dispatch)
    dispatch._work, dispatch._clock = asyncio.Event(), ManualClock()
    task = asyncio.create_task(dispatch.run())
    await asyncio.sleep(0.005)
    dispatch.changed()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    assert await ends(task)
