"""What is out with workers: each task, with the permit it runs under and what it was for."""

from __future__ import annotations

from dataclasses import dataclass

from mannerly.coordinator.hosts import ActiveHost, RobotsStep
from mannerly.model.task import Task, TaskKind
from mannerly.ports import Permit, Waiting


@dataclass(frozen=True, slots=True)
class Flight:
    """A task that is out. Exactly one of `entry` (a page), `step` (robots.txt), neither (a name) is there.

    host is the host asked; permit is None for a name.
    """

    task: Task
    host: ActiveHost
    sent_at: float
    permit: Permit | None = None
    entry: Waiting | None = None
    step: RobotsStep | None = None


class Flights:
    """The tasks that are out, by id. Ids are unique within a run and, by the generation, within the crawl."""

    def __init__(self, generation: int) -> None:
        self._next = generation << 40
        self._out: dict[int, Flight] = {}
        self._pages = 0
        self._alone = 0

    def next_id(self) -> int:
        """Return an id that no other task of this crawl has."""
        self._next += 1
        return self._next

    def add(self, flight: Flight) -> None:
        """Note a task as out."""
        self._out[flight.task.id] = flight
        self._pages += flight.task.kind is TaskKind.PAGE
        self._alone += flight.task.alone

    def take(self, task_id: int) -> Flight | None:
        """Return the flight and forget it; None if no such task is out (a result that came twice, or of no task)."""
        flight = self._out.pop(task_id, None)
        if flight is not None:
            self._pages -= flight.task.kind is TaskKind.PAGE
            self._alone -= flight.task.alone
        return flight

    @property
    def pages(self) -> int:
        """How many tasks for pages are out."""
        return self._pages

    @property
    def alone(self) -> bool:
        """True while a task is out that is performed alone: there is one such at a time."""
        return self._alone > 0

    def __len__(self) -> int:
        return len(self._out)

    def __repr__(self) -> str:
        return f"<Flights {len(self._out)} out, {self._pages} for pages>"
