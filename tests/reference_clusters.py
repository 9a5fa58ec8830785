"""Greedy clustering of tables, plainly: at every step all pairs are tried. Imports nothing of crosstally."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def greedy_clusters(
    tables: Sequence[Sequence[int]], weights: Sequence[float], sizes: Sequence[int], root: int
) -> tuple[float, list[tuple[int, ...]]]:
    """The lowest objective met on the way from all tables apart to one, and the clusters it is met with.

    The objective is the sum of roots of weight times cells; with root 1, times the squared number of clusters.
    """
    clusters = [(frozenset(table), weight) for table, weight in zip(tables, weights, strict=True)]

    def cost(cluster: tuple[frozenset[int], float]) -> float:
        return float((cluster[1] * prod(sizes[i] for i in cluster[0])) ** (1 / root))

    def objective() -> float:
        return sum(map(cost, clusters)) * (len(clusters) ** 2 if root == 1 else 1)

    best = objective(), list(clusters)
    while len(clusters) > 1:
        found = []
        for i in range(len(clusters)):
            for j in range(i):
                union = clusters[i][0] | clusters[j][0], clusters[i][1] + clusters[j][1]
                found.append((cost(union) - cost(clusters[i]) - cost(clusters[j]), i, j, union))
        _, i, j, union = min(found, key=lambda each: each[0])
        del clusters[i], clusters[j]
        clusters.append(union)
        if objective() < best[0]:
            best = objective(), list(clusters)
    return best[0], sorted(tuple(sorted(each[0])) for each in best[1])
