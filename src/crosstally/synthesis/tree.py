"""Which attribute is drawn after which: a tree along the strongest links (Chow and Liu 1968)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crosstally.typing import Floats

__all__ = ["drawing_order", "mutual_information"]


def mutual_information(table: Floats) -> float:
    """How much, in natural units, one attribute of a table of two says about the other; 0 for a table of nobody.

    >>> round(mutual_information(np.array([[5.0, 0.0], [0.0, 5.0]])), 6), mutual_information(np.ones((2, 3)))
    (0.693147, 0.0)
    """
    p = np.maximum(table, 0.0)
    if not p.sum() > 0:
        return 0.0
    p = p / p.sum()
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    held = p > 0
    return max(0.0, float((p[held] * np.log(p[held] / expected[held])).sum()))


def drawing_order(number: int, links: Mapping[tuple[int, int], float]) -> Sequence[tuple[int, int | None]]:
    """Attributes in the order in which they are drawn, each with the one it depends on, if any.

    The tree of largest total weight, found from its strongest link on (Prim). Attributes that no link reaches begin
    trees of their own.

    Args:
        number: How many attributes there are.
        links: The weight of each pair, the lower position first.

    >>> drawing_order(4, {(0, 1): 0.1, (1, 2): 0.5, (0, 2): 0.4})
    [(1, None), (2, 1), (0, 2), (3, None)]
    """
    weights = np.full((number, number), -1.0)
    for (a, b), weight in links.items():
        weights[a, b] = weights[b, a] = weight
    best, parent = weights.max(axis=1, initial=-1.0), np.full(number, -1)
    reach = np.full(number, -1.0)  # the strongest link to an attribute that was drawn
    left, out = set(range(number)), []
    while left:
        linked = [i for i in left if reach[i] >= 0]
        chosen = max(linked, key=lambda i: (reach[i], -i)) if linked else max(left, key=lambda i: (best[i], -i))
        out.append((chosen, int(parent[chosen]) if linked else None))
        left.remove(chosen)
        nearer = weights[chosen] > reach
        reach[nearer], parent[nearer] = weights[chosen][nearer], chosen
    return out
