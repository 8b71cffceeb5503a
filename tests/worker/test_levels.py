"""At which level launches run: behind what they touch, and those of weights one product ahead."""

from __future__ import annotations

from vkbench_worker.models.levels import Levels, Place, Use

WEIGHTS = {"w1", "w2", "w3", "w4"}


def use(read: str, written: str) -> Use:
    return Use(
        touched=frozenset((read + " " + written).split()), written=frozenset(written.split())
    )


def product(number: int, x: str, y: str) -> list[Use]:
    """Decode the weights, pack x, multiply."""
    panels, packed = f"panels{number}", f"packed{number}"
    return [
        use(f"w{number}", panels),
        use(x, packed),
        use(f"w{number} {x} {panels} {packed}", y),
    ]


def levels_of(*steps: list[Use]) -> list[list[int]]:
    order = Levels(set(WEIGHTS))
    return [[place.level for place in order.place(step)] for step in steps]


def test_a_launch_waits_for_what_it_reads_and_for_readers_of_what_it_writes() -> None:
    found = levels_of([use("a", "b")], [use("a", "c")], [use("b c", "d")], [use("e", "b")])
    assert found == [[0], [0], [1], [2]]


def test_launches_of_a_step_run_together_where_they_touch_nothing_in_common() -> None:
    found = levels_of([use("y", "x")], [use("x", "a"), use("y", "b"), use("a b", "z")])
    assert found == [[0], [1, 1, 2]]


def test_no_launch_but_those_of_weights_runs_before_all_its_step_reads_is_there() -> None:
    """Else its scratch would be held for long."""
    assert levels_of([use("a", "x")], [use("mask", "blocks"), use("x blocks", "y")])[1] == [1, 2]


def test_the_first_weights_are_decoded_when_they_are_needed() -> None:
    assert levels_of([use("a", "x")], product(1, "x", "y"))[1] == [1, 1, 2]


def test_weights_are_decoded_at_the_beginning_where_a_step_waits_for_nothing() -> None:
    assert levels_of([use("w1", "panels"), use("panels a", "y")]) == [[0, 1]]


def test_weights_are_decoded_one_product_ahead_and_no_more() -> None:
    steps = [product(number, f"x{number}", f"x{number + 1}") for number in (1, 2, 3)]
    order = Levels(set(WEIGHTS))
    places = [order.place(step) for step in steps]
    multiplied = [each[2].level for each in places]
    assert places[1][0] == Place(level=multiplied[0], is_ahead=True)
    assert places[2][0] == Place(level=multiplied[1], is_ahead=True)
    assert multiplied == [1, 3, 5]
    assert [order.span(f"panels{number}") for number in (1, 2, 3)] == [(0, 1), (1, 3), (3, 5)]


def test_products_beside_each_other_are_prepared_beside_the_one_before_them() -> None:
    found = levels_of(
        product(1, "x", "y"), product(2, "y", "q"), product(3, "y", "k"), product(4, "q", "z")
    )
    assert [each[0] for each in found] == [0, 1, 1, 3]
    assert [each[2] for each in found] == [1, 3, 3, 5]


def test_memory_that_was_touched_before_is_not_prepared_early() -> None:
    """What is written there has to wait for those that read it."""
    again = [use("w2", "panels1"), use("panels1 y", "z")]
    found = levels_of(product(1, "x", "y"), [use("panels1", "copy")], again)
    assert found[1:] == [[1], [2, 3]]


def test_what_depends_on_more_than_weights_is_not_prepared() -> None:
    steps = product(1, "x", "y"), [use("w2 y", "panels"), use("panels", "z")]
    assert levels_of(*steps)[1] == [2, 3]


def test_a_value_that_no_launch_touches_needs_no_time() -> None:
    assert Levels(set()).span("idle") == (0, 0)
