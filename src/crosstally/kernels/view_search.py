"""Search for views and their budgets: what least squares over them will say is the objective, exactly.

Random changes of the views are tried; one is kept only if it lowers the objective after tuning (descent). A view is a
mask of attributes. With e the share of the whole budget that a view gets and c its cells, each residual B inside it is
seen with precision y = e^x / c (x is 2 under Laplace and 1 under Gaussian noise) times a constant of B. The objective
is the sum over all B that matter of importance / (sum of y over the views that hold B), shares summing to one:

    objective(e) = sum_B  g_B / P_B,      P_B = sum over views V that hold B of e_V^x / c_V,      sum_V e_V = 1.

Shares are tuned in turns. For given e let u_VB = (e_V^x / c_V) / P_B, the weight that least squares gives V's answer
about B; with those weights held the error is sum_V (c_V / e_V^x) G_V with G_V = sum_B g_B u_VB^2, which is least for
e_V proportional to (c_V G_V)^(1 / (x + 1)). Both halves of a turn are minima, so no turn raises the objective.

Arrays: views (V) of one bit for each attribute, ``sets`` the masks of all B (B), ``members`` (V, B) the numbers of the
B inside each view, ``lengths`` (V) how many of them there are, ``precision`` P (B), ``importance`` g (B).

One view of 4 cells that holds one B with g = 1, under Laplace noise: e = 1, P = 1/4, and the objective is 4. Two copies
of it: e = 1/2 each, P = 2 (1/2)^2 / 4 = 1/8, and it is 8. Under Gaussian noise both are 4.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import next_state, number_below
from crosstally.typing import Floats, Integers

# Changes whose approximate objective is within 0.3% of the best are tuned and evaluated exactly. Chosen: less misses
# some that tuning would improve, more takes longer.
_SLACK = 1.003
# Steps of tuning after each change. Chosen: the shares start near, and each step visits all sets of all views.
_STEPS = 2
_TINY = 1e-100  # replaces a sum of precisions that is zero or negative through rounding after a subtraction

_TRIED = (0.75, 1.1, 1.45)
"""Shares to try for a new view, in units of the larger share that goes; of an even share for a copy."""

_FIRST, _SECOND, _NEW = 0, 1, 2
"""The entries of a move: places of the two removed views, the mask of the new one. An absent view is -1."""

Views = tuple[Integers, Floats, NDArray[np.int32], Integers, Floats]
"""Masks, shares, members, lengths and cells of the views, with room for more of them than there are."""
_VIEWS = "Tuple((int64[::1], float64[::1], int32[:, ::1], int64[::1], float64[::1]))"

Sets = tuple[Integers, Floats, Floats, Integers]
"""Masks, importance and precision of the sets, and how many views hold each."""
_SETS = "Tuple((int64[::1], float64[::1], float64[::1], int64[::1]))"


@njit("float64(float64, int64)", cache=True)
def _power(share: float, exponent: int) -> float:
    """The share raised to x: e^x."""
    return share * share if exponent == 2 else share


@njit(
    "float64(int32[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], int64, int64)",
    cache=True,
)
def tuned_shares(  # noqa: PLR0917
    members: NDArray[np.int32],
    lengths: Integers,
    cells: Floats,
    shares: Floats,
    importance: Floats,
    precision: Floats,
    exponent: int,
    steps: int,
) -> float:
    """The objective after some steps from shares to the best weights for them to the best shares for those.

    No step raises it. Views of no length are left out.

    Args:
        members: For each view the sets it holds.
        lengths: How many they are.
        cells: Of each view.
        shares: Of each view, as many as there are views; changed.
        importance: Of each set.
        precision: Written: of each set.
        exponent: 2 under Laplace noise and 1 under Gaussian.
        steps: How many.
    """
    number = len(shares)
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
        objective = 0.0  # sum of g / P; without a view for some B there is no estimate
        for k in range(len(importance)):
            if precision[k] <= 0:
                return math.inf
            objective += importance[k] / precision[k]
        if step == steps:
            return objective
        for view in range(number):
            # total is G_V, weight is u_VB
            y = _power(shares[view], exponent) / cells[view]
            total = 0.0
            for k in range(lengths[view]):
                weight = y / precision[members[view, k]]
                total += importance[members[view, k]] * weight * weight
            shares[view] = math.exp(math.log(total * cells[view]) / (exponent + 1)) if total > 0 else 0.0
    return math.inf


@njit("int64(int64, int64[::1], int32[:, ::1], int64)", cache=True)
def _hold(mask: int, sets: Integers, members: NDArray[np.int32], view: int) -> int:
    """Write the sets inside a mask as the members of a view; how many they are."""
    number = 0
    for k in range(len(sets)):
        if sets[k] & ~mask == 0:
            members[view, number] = k
            number += 1
    return number


@njit("float64(int64, float64[::1])", cache=True)
def _cells(mask: int, logs: Floats) -> float:
    """The number of cells of a view."""
    total = 0.0
    for bit in range(len(logs)):
        if mask >> bit & 1:
            total += logs[bit]
    return math.exp(total)


@njit("void(float64[::1], float64[::1], float64[::1], float64[::1])", cache=True)
def _copy(shares: Floats, precision: Floats, to_shares: Floats, to_precision: Floats) -> None:
    for i in range(len(shares)):
        to_shares[i] = shares[i]
    for i in range(len(precision)):
        to_precision[i] = precision[i]


@njit("void(int32[:, ::1], int64[::1], int64, int64[::1])", cache=True)
def _count_holders(members: NDArray[np.int32], lengths: Integers, number: int, holders: Integers) -> None:
    """How many views hold each set."""
    for k in range(len(holders)):
        holders[k] = 0
    for view in range(number):
        for k in range(lengths[view]):
            holders[members[view, k]] += 1


@njit("uint64(uint64, int64[::1], int64, int64, int64[::1])", cache=True)
def _propose(state: np.uint64, views: Integers, number: int, attributes: int, move: Integers) -> np.uint64:
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
    move[_FIRST], move[_SECOND], move[_NEW] = one, -1, views[one] ^ (1 << i)
    # Kinds 0 to 2: one attribute comes or goes. 3: drop a view. 4: merge two. 5 and 6: two attributes. 7: add a copy
    # with one attribute more or less.
    if kind == 3:
        move[_NEW] = -1
    elif kind == 4 and other != one:
        move[_SECOND], move[_NEW] = other, views[one] | views[other]
    elif kind in (5, 6):
        move[_NEW] ^= 1 << j
    elif kind == 7:
        move[_FIRST] = -1
    if move[_NEW] == 0:
        move[_NEW] = -1
    return state


@njit(f"UniTuple(float64, 2)(int64[::1], int64, float64, {_VIEWS}, {_SETS}, int64)", cache=True)
def _screened(  # noqa: PLR0917
    move: Integers, number: int, size: float, views: Views, sets: Sets, exponent: int
) -> tuple[float, float]:
    """The objective after a move while all other shares stay as they are, and the best of three shares tried.

    ``size`` is the number of cells of the new view.
    """
    masks, shares, _, _, cells = views
    inside, importance, precision, holders = sets
    first, second, new = move[_FIRST], move[_SECOND], move[_NEW]
    first_mask, first_share = (masks[first], shares[first]) if first >= 0 else (-1, 0.0)
    second_mask, second_share = (masks[second], shares[second]) if second >= 0 else (-1, 0.0)
    # What the two views give to P_B of every B inside them
    going = _power(first_share, exponent) * (1 / cells[first]) if first >= 0 else 0.0
    leaving = _power(second_share, exponent) * (1 / cells[second]) if second >= 0 else 0.0
    base = max(first_share, second_share, 0.1 / number) if first >= 0 else 1 / number
    if new < 0:
        base, size = 0.0, 1.0
    tried = (base * _TRIED[0], base * _TRIED[1], base * _TRIED[2])
    a, b, c = _power(tried[0], exponent) / size, _power(tried[1], exponent) / size, _power(tried[2], exponent) / size
    with_a, with_b, with_c, same = 0.0, 0.0, 0.0, 0.0
    for k in range(len(inside)):
        y, left = precision[k], holders[k]
        if first_mask >= 0 and inside[k] & ~first_mask == 0:
            y, left = y - going, left - 1
        if second_mask >= 0 and inside[k] & ~second_mask == 0:
            y, left = y - leaving, left - 1
        # Without holders it is 0 and not what rounding left of it
        y = max(y, _TINY) if left > 0 else 0.0
        if new >= 0 and inside[k] & ~new == 0:
            with_a += importance[k] / (y + a)
            with_b += importance[k] / (y + b)
            with_c += importance[k] / (y + c)
        elif left == 0:
            return math.inf, 0.0
        else:
            same += importance[k] / y
    best, share = math.inf, 0.0
    for changed, one in zip((with_a, with_b, with_c), tried):  # noqa: B905 (numba knows no strict)
        # Shares no longer sum to one: scaling all by 1 / total multiplies every P by total^-x
        found = (same + changed) * _power(1 - first_share - second_share + one, exponent)
        if found < best:
            best, share = found, one
    return best, share


@njit(f"void(int64[::1], int64, float64, float64, int64[::1], {_VIEWS})", cache=True)
def _make(  # noqa: PLR0917
    move: Integers, place: int, size: float, share: float, sets: Integers, views: Views
) -> None:
    """Put the view that comes in its place, with this share, and empty those that go."""
    masks, shares, members, lengths, cells = views
    if move[_NEW] >= 0:
        masks[place], lengths[place], cells[place] = move[_NEW], _hold(move[_NEW], sets, members, place), size
        shares[place] = share
    else:
        lengths[place], shares[place] = 0, 0.0
    if move[_SECOND] >= 0:
        lengths[move[_SECOND]], shares[move[_SECOND]] = 0, 0.0


@njit(f"int64(int64[::1], int64, int64, {_VIEWS})", cache=True)
def _keep(move: Integers, place: int, number: int, views: Views) -> int:
    """How many views are left after a move: one that went leaves a gap, which the last view fills."""
    masks, shares, members, lengths, cells = views
    gap = move[_SECOND] if move[_SECOND] >= 0 else place if move[_NEW] < 0 else -1
    if gap < 0:
        return number
    number -= 1
    masks[gap], shares[gap] = masks[number], shares[number]
    lengths[gap], cells[gap] = lengths[number], cells[number]
    for k in range(lengths[gap]):
        members[gap, k] = members[number, k]
    lengths[number] = 0
    return number


@njit("boolean(int64[::1], int64, int64, float64, float64)", cache=True)
def _is_possible(move: Integers, number: int, room: int, size: float, most: float) -> bool:
    """Whether a move changes something, leaves a view, and has room for what comes."""
    if move[_NEW] < 0 and (move[_FIRST] < 0 or number == 1):
        return False  # nothing would change (a copy less its only attribute), or no view would be left
    return not (move[_FIRST] < 0 and number == room) and size <= most


@njit(
    "int64(int64[::1], float64[::1], int64, int64[::1], float64[::1], float64[::1], float64[::1], uint64)", cache=True
)
def descend(  # noqa: PLR0917
    views: Integers,
    shares: Floats,
    number: int,
    sets: Integers,
    importance: Floats,
    logs: Floats,
    limits: Floats,
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
    # P, holders and objective are kept up to date; a change is made if, with other shares held, it is near the best
    room, most, exponent, effort = len(views), limits[0], int(limits[1]), limits[2]
    members, lengths, cells = np.empty((room, len(sets)), np.int32), np.zeros(room, np.int64), np.ones(room)
    precision, holders = np.empty(len(sets)), np.zeros(len(sets), np.int64)
    held, seen = (views, shares, members, lengths, cells), (sets, importance, precision, holders)
    for view in range(number):
        lengths[view], cells[view] = _hold(views[view], sets, members, view), _cells(views[view], logs)
    _count_holders(members, lengths, number, holders)
    tuned = tuned_shares(members, lengths, cells, shares[:number], importance, precision, exponent, 30)
    kept, kept_precision, move = np.empty(room), np.empty(len(sets)), np.empty(3, np.int64)
    while effort > 0:
        effort -= len(sets) + 50
        state = _propose(state, views, number, len(logs), move)
        size = _cells(move[_NEW], logs) if move[_NEW] >= 0 else 0.0
        if not _is_possible(move, number, room, size, most):
            continue
        found, share = _screened(move, number, size, held, seen, exponent)
        if found > tuned * _SLACK:
            continue
        # It may be better: make the change, tune all shares, and undo it if it is not
        _copy(shares, precision, kept, kept_precision)
        place, other = move[_FIRST] if move[_FIRST] >= 0 else number, move[_SECOND]
        old_view, old_length, old_cells, gone = views[place], lengths[place], cells[place], lengths[max(other, 0)]
        _make(move, place, size, share, sets, held)
        after = max(number, place + 1)
        effort -= 2 * (_STEPS + 1) * lengths[:after].sum()
        found = tuned_shares(members, lengths, cells, shares[:after], importance, precision, exponent, _STEPS)
        if found < tuned * (1 - 1e-9):
            tuned, number = found, _keep(move, place, after, held)
            _count_holders(members, lengths, number, holders)
        else:
            _copy(kept, kept_precision, shares, precision)
            views[place], lengths[place], cells[place] = old_view, old_length, old_cells
            if place < number:
                _hold(views[place], sets, members, place)
            if other >= 0:
                lengths[other] = gone
    return number


@njit("int64(int64[::1], float64[::1], float64[::1], float64, int64[::1])", cache=True)
def packed_views(tables: Integers, weights: Floats, logs: Floats, most: float, views: Integers) -> int:
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
                # A table that lacks one attribute (one bit: x & (x - 1) = 0) is completed by it
                lacking = tables[k] & ~view
                if missing[k] and lacking and lacking & (lacking - 1) == 0:
                    bit = 0
                    while lacking >> bit & 1 == 0:
                        bit += 1
                    gains[bit] += weights[k] / logs[bit]
            # The attribute that completes most weight for each unit of the logarithm of cells, if there is room for it
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
