"""Keys by due instant, against a plain dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mannerly.policy.due import DueQueue

KEYS = st.sampled_from("abcdef")
INSTANTS = st.integers(0, 9).map(float)


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), KEYS, INSTANTS),
            st.tuples(st.just("discard"), KEYS, st.just(0.0)),
            st.tuples(st.just("pop"), st.just(""), INSTANTS),
        )
    )
)
def test_pops_what_is_due_and_nothing_else_in_order(steps: list[tuple[str, str, float]]) -> None:
    queue: DueQueue[str] = DueQueue()
    plain: dict[str, float] = {}
    for step, key, at in steps:
        if step == "set":
            queue.set(key, at)
            plain[key] = at
        elif step == "discard":
            queue.discard(key)
            plain.pop(key, None)
        else:
            due = queue.pop_due(at)
            assert set(due) == {k for k, due_at in plain.items() if due_at <= at}
            assert [plain[k] for k in due] == sorted(plain[k] for k in due)
            for k in due:
                del plain[k]
        first = queue.earliest()
        assert (first and first[0]) == (min(plain.values()) if plain else None)
        assert len(queue) == len(plain)
        assert set(plain) == {k for k in "abcdef" if k in queue}


def test_keys_of_one_instant_keep_their_order_and_most_is_kept() -> None:
    queue: DueQueue[str] = DueQueue()
    for key in "cab":
        queue.set(key, 5.0)
    assert queue.pop_due(4.9) == []
    assert queue.pop_due(5.0, most=2) == ["c", "a"]
    assert queue.pop_due(5.0, most=2) == ["b"]


def test_one_key_set_often_takes_bounded_room() -> None:
    queue: DueQueue[str] = DueQueue()
    for i in range(10_000):
        queue.set("a", float(i))
    assert repr(queue).startswith("<DueQueue 1 keys,")
    assert int(repr(queue).split()[3]) <= 66
