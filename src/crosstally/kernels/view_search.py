"""Search for views and their budgets: what least squares over them will say is the objective, exactly.

A view is a mask of attributes. With e the share of a view's budget and c its cells, each residual B inside it is seen
with precision y = e^x / c (x is 2 under Laplace and 1 under Gaussian noise) times a constant of B. The objective is the
sum over all B that matter of importance / (sum of y over the views that hold B), shares summing to one.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import next_state, number_below

__all__ = ["descend", "packed_views", "tuned_shares"]

# Changes whose rough objective is within 0.3% of the best are tuned and looked at in full. Chosen: less misses some
# that tuning would have made better, more takes longer.
_SLACK = 1.003
# Steps of tuning after each change. Chosen: the shares start near, and each step visits all sets of all views.
_STEPS = 2
_TINY = 1e-100  # a sum of precisions from which one was subtracted may round to zero or below: this stands for it


@njit("float64(float64, int64)", cache=True)
def _power(share: float, exponent: int) -> float:
    return share * share if exponent == 2 else share


@njit(
    "float64(int32[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], int64[::1])",
    cache=True,
)
def tuned_shares(  # noqa: PLR0917
    members: NDArray[np.int32],
    lengths: NDArray[np.int64],
    cells: NDArray[np.float64],
    shares: NDArray[np.float64],
    importance: NDArray[np.float64],
    precision: NDArray[np.float64],
    numbers: NDArray[np.int64],
) -> float:
    """The objective after some steps from shares to the best weights for them to the best shares for those.

    No step raises it. Views of no length are left out.

    Args:
        members: For each view the sets it holds.
        lengths: How many they are.
        cells: Of each view.
        shares: Of each view; changed.
        importance: Of each set.
        precision: Written: of each set.
        numbers: How many views there are; the exponent, 2 under Laplace noise and 1 under Gaussian; how many steps.
    """
    number, exponent, steps = numbers[0], numbers[1], numbers[2]
    for step in range(steps + 1):
        whole = 0.0
        for view in range(number):
            whole += shares[view]
        for k in range(len(precision)):
            precision[k] = 0.0
        for view in range(number):
            shares[view] /= whole
            y = _power(shares[view], exponent) / cells[view]
            for k in range(lengths[view]):
                precision[members[view, k]] += y
        objective = 0.0
        for k in range(len(importance)):
            if precision[k] <= 0:
                return math.inf
            objective += importance[k] / precision[k]
        if step == steps:
            return objective
        for view in range(number):
            y = _power(shares[view], exponent) / cells[view]
            total = 0.0
            for k in range(lengths[view]):
                weight = y / precision[members[view, k]]
                total += importance[members[view, k]] * weight * weight
            shares[view] = math.exp(math.log(total * cells[view]) / (exponent + 1)) if total > 0 else 0.0
    return math.inf


@njit("int64(int64, int64[::1], int32[:, ::1], int64)", cache=True)
def _hold(mask: int, sets: NDArray[np.int64], members: NDArray[np.int32], view: int) -> int:
    """Write the sets inside a mask as the members of a view; how many they are."""
    number = 0
    for k in range(len(sets)):
        if sets[k] & ~mask == 0:
            members[view, number] = k
            number += 1
    return number


@njit("float64(int64, float64[::1])", cache=True)
def _cells(mask: int, logs: NDArray[np.float64]) -> float:
    total = 0.0
    for bit in range(len(logs)):
        if mask >> bit & 1:
            total += logs[bit]
    return math.exp(total)


@njit("void(float64[::1], float64[::1])", cache=True)
def _copy(given: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    for i in range(len(given)):
        out[i] = given[i]


@njit("void(int32[:, ::1], int64[::1], int64, int64[::1])", cache=True)
def _count_holders(
    members: NDArray[np.int32], lengths: NDArray[np.int64], number: int, holders: NDArray[np.int64]
) -> None:
    """How many views hold each set."""
    for k in range(len(holders)):
        holders[k] = 0
    for view in range(number):
        for k in range(lengths[view]):
            holders[members[view, k]] += 1


@njit("uint64(uint64, int64[::1], int64, int64, int64[::1])", cache=True)
def _propose(
    state: np.uint64, views: NDArray[np.int64], number: int, attributes: int, move: NDArray[np.int64]
) -> np.uint64:
    """A change: the views that go (or -1) and the mask of the one that comes (or -1)."""
    state = next_state(state)
    kind = number_below(state, 8)
    state = next_state(state)
    one = number_below(state, number)
    state = next_state(state)
    other = number_below(state, number)
    state = next_state(state)
    i = number_below(state, attributes)
    state = next_state(state)
    j = number_below(state, attributes)
    move[0], move[1], move[2] = one, -1, views[one] ^ (1 << i)
    if kind == 3:
        move[2] = -1
    elif kind == 4 and other != one:
        move[1], move[2] = other, views[one] | views[other]
    elif kind in (5, 6):
        move[2] ^= 1 << j
    elif kind == 7:
        move[0] = -1
    if move[2] == 0:
        move[2] = -1
    return state


@njit(
    "float64(int64[::1], float64[::1], int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], int64)",
    cache=True,
)
def _screened(  # noqa: PLR0917
    masks: NDArray[np.int64],
    parts: NDArray[np.float64],
    sets: NDArray[np.int64],
    importance: NDArray[np.float64],
    precision: NDArray[np.float64],
    holders: NDArray[np.int64],
    trial: NDArray[np.float64],
    exponent: int,
) -> float:
    """The objective after a change while all other shares stay as they are, for the best of three shares tried.

    ``parts`` are the shares of the two views that go, one over the cells of all three, and three shares to try for the
    one that comes, which is put first.
    """
    going, leaving = _power(parts[0], exponent) * parts[2], _power(parts[1], exponent) * parts[3]
    first, second, third, same = 0.0, 0.0, 0.0, 0.0
    for k in range(len(sets)):
        y, left = precision[k], holders[k]
        if masks[0] >= 0 and sets[k] & ~masks[0] == 0:
            y, left = y - going, left - 1
        if masks[1] >= 0 and sets[k] & ~masks[1] == 0:
            y, left = y - leaving, left - 1
        y = max(y, _TINY) if left > 0 else 0.0
        if masks[2] >= 0 and sets[k] & ~masks[2] == 0:
            first += importance[k] / (y + trial[0])
            second += importance[k] / (y + trial[1])
            third += importance[k] / (y + trial[2])
        elif left == 0:
            return math.inf
        else:
            same += importance[k] / y
    best = math.inf
    for t in range(3):
        total = 1 - parts[0] - parts[1] + parts[5 + t]
        found = (same + (first if t == 0 else second if t == 1 else third)) * _power(total, exponent)
        if found < best:
            best, parts[5] = found, parts[5 + t]
    return best


@njit(
    "int64(int64[::1], float64[::1], int64, int64[::1], float64[::1], float64[::1], float64[::1], uint64)", cache=True
)
def descend(  # noqa: PLR0912, PLR0915, PLR0917
    views: NDArray[np.int64],
    shares: NDArray[np.float64],
    number: int,
    sets: NDArray[np.int64],
    importance: NDArray[np.float64],
    logs: NDArray[np.float64],
    limits: NDArray[np.float64],
    state: np.uint64,
) -> int:
    """Change views one attribute at a time, merge, drop and copy them, wherever that lowers the objective.

    Args:
        views: Masks, with room for more; changed.
        shares: Of their budgets; changed.
        number: How many views there are at first; how many there are in the end is returned.
        sets: The masks of the sets that matter.
        importance: Of each set.
        logs: The logarithm of the number of cells of each attribute.
        limits: The most cells of a view, the exponent, and the effort: how often to look at a set.
        state: Of the generator.
    """
    room, exponent = len(views), int(limits[1])
    members = np.empty((room, len(sets)), np.int32)
    lengths, holders = np.zeros(room, np.int64), np.zeros(len(sets), np.int64)
    cells, precision = np.ones(room), np.empty(len(sets))
    for view in range(number):
        lengths[view], cells[view] = _hold(views[view], sets, members, view), _cells(views[view], logs)
    _count_holders(members, lengths, number, holders)
    numbers = np.array([number, exponent, 30])
    tuned = tuned_shares(members, lengths, cells, shares, importance, precision, numbers)
    move, masks, parts, trial = np.empty(3, np.int64), np.empty(3, np.int64), np.zeros(8), np.zeros(3)
    kept, kept_precision = np.empty(room), np.empty(len(sets))
    effort = limits[2]
    while effort > 0:
        effort -= len(sets) + 50
        state = _propose(state, views, number, len(logs), move)
        one, other, mask = move[0], move[1], move[2]
        if mask < 0 and (one < 0 or number == 1):
            continue  # nothing would change (a copy less its only attribute), or no view would be left
        if one < 0 and number == room:
            continue
        if mask >= 0:
            size = _cells(mask, logs)
            if size > limits[0]:
                continue
        base = 0.0
        for t in range(2):
            masks[t] = views[move[t]] if move[t] >= 0 else -1
            parts[t] = shares[move[t]] if move[t] >= 0 else 0.0
            parts[2 + t] = 1 / cells[move[t]] if move[t] >= 0 else 0.0
            base = max(base, parts[t])
        masks[2] = mask
        base = max(base, 0.1 / number) if one >= 0 else 1 / number
        for t in range(3):
            parts[5 + t] = base * (0.75 + 0.35 * t) if mask >= 0 else 0.0
            trial[t] = _power(parts[5 + t], exponent) / size if mask >= 0 else 0.0
        if _screened(masks, parts, sets, importance, precision, holders, trial, exponent) > tuned * _SLACK:
            continue
        # It may be better: make the change, tune all shares, and undo it if it is not.
        _copy(shares, kept)
        _copy(precision, kept_precision)
        place = one if one >= 0 else number
        old_view, old_length, old_cells = views[place], lengths[place], cells[place]
        gone = lengths[other] if other >= 0 else 0
        if mask >= 0:
            views[place], lengths[place], cells[place] = mask, _hold(mask, sets, members, place), size
            shares[place] = parts[5]
        else:
            lengths[place], shares[place] = 0, 0.0
        if other >= 0:
            lengths[other], shares[other] = 0, 0.0
        many = max(number, place + 1)
        numbers[0], numbers[2] = many, _STEPS
        for view in range(many):
            effort -= 2 * (_STEPS + 1) * lengths[view]
        found = tuned_shares(members, lengths, cells, shares, importance, precision, numbers)
        if found < tuned * (1 - 1e-9):
            tuned, number = found, many
            last = other if other >= 0 else place if mask < 0 else -1
            if last >= 0:
                number -= 1
                views[last], shares[last] = views[number], shares[number]
                lengths[last], cells[last] = lengths[number], cells[number]
                for k in range(lengths[last]):
                    members[last, k] = members[number, k]
                lengths[number] = 0
            _count_holders(members, lengths, number, holders)
        else:
            _copy(kept, shares)
            _copy(kept_precision, precision)
            views[place], lengths[place], cells[place] = old_view, old_length, old_cells
            if place < number:
                _hold(views[place], sets, members, place)
            if other >= 0:
                lengths[other] = gone
    return number


@njit("int64(int64[::1], float64[::1], float64[::1], float64, int64[::1])", cache=True)
def packed_views(
    tables: NDArray[np.int64],
    weights: NDArray[np.float64],
    logs: NDArray[np.float64],
    most: float,
    views: NDArray[np.int64],
) -> int:
    """Views of limited size that hold every table, each grown by the attributes that complete most; their number.

    Args:
        tables: Their masks; each view starts from the first that is in none.
        weights: Of the tables.
        logs: The logarithm of the number of cells of each attribute.
        most: The logarithm of the most cells of a view; a table that is larger is a view by itself.
        views: Written: their masks.
    """
    number = 0
    missing = np.ones(len(tables), np.bool_)
    gains = np.empty(len(logs))
    for start in range(len(tables)):
        if not missing[start]:
            continue
        view = tables[start]
        size = math.log(_cells(view, logs))
        while True:
            for bit in range(len(logs)):
                gains[bit] = 0.0
            for k in range(start, len(tables)):
                lacking = tables[k] & ~view
                if missing[k] and lacking and lacking & (lacking - 1) == 0:
                    bit = 0
                    while lacking >> bit & 1 == 0:
                        bit += 1
                    gains[bit] += weights[k] / logs[bit]
            best = -1
            for bit in range(len(logs)):
                fits = size + logs[bit] <= most and gains[bit] > 0
                if fits and (best < 0 or gains[bit] > gains[best]):
                    best = bit
            if best < 0:
                break
            view |= 1 << best
            size += logs[best]
        for k in range(start, len(tables)):
            if tables[k] & ~view == 0:
                missing[k] = False
        views[number] = view
        number += 1
    return number
