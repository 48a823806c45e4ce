"""Compiled passes over a forest of labels: the best consistent set, its probabilities, and implied true labels.

Nodes are labels, parents before children. Those of a unit stand together: a unit is a group, or a label alone, of which
at most one is true. All nodes of a unit have the same parent.

columns    int32 (n_nodes,)      column of each node's label
ends       int32 (n_units,)      the node behind the last of each unit
parents    int32 (n_units,)      node that is the parent of a unit's nodes, -1 for none
exact      bool (n_units,)       whether one of them is true wherever the parent is
"""

import numpy as np

from manylabel_core.compiled import compiled


@compiled
def decide(scores, columns, ends, parents, exact):  # type: ignore[no-untyped-def]
    """Replace the scores of nodes by margins of the best consistent set plus the threshold (column 0): see
    `LabelStructure.decide`.
    """
    n_nodes, n_units = len(columns), len(ends)
    best = np.empty(n_nodes)  # best total of the subtree of each node, given that the node is true
    margin = np.empty(n_nodes)
    chosen = np.empty(n_nodes, dtype=np.bool_)
    first, second = np.empty(n_units), np.empty(n_units)
    at = np.empty(n_units, dtype=np.int32)
    for i in range(len(scores)):
        row = scores[i]
        threshold = row[0]
        for node in range(n_nodes):
            best[node] = row[1 + columns[node]] - threshold
        for unit in range(n_units - 1, -1, -1):
            begin = ends[unit - 1] if unit > 0 else 0
            first[unit], second[unit], at[unit] = -np.inf, -np.inf, begin
            for node in range(begin, ends[unit]):
                if best[node] > first[unit]:
                    second[unit] = first[unit]
                    first[unit], at[unit] = best[node], node
                elif best[node] > second[unit]:
                    second[unit] = best[node]
            if parents[unit] >= 0:
                best[parents[unit]] += first[unit] if exact[unit] else max(first[unit], 0.0)
        for unit in range(n_units):
            begin, parent = ends[unit - 1] if unit > 0 else 0, parents[unit]
            above = margin[parent] if parent >= 0 else np.inf
            for node in range(begin, ends[unit]):
                other = second[unit] if node == at[unit] else first[unit]
                if not exact[unit]:
                    other = max(other, 0.0)
                gain = best[node] - other
                holds = node == at[unit] and (exact[unit] or best[node] > 0.0)
                chosen[node] = holds and (parent < 0 or chosen[parent])
                own = min(gain, above) if holds else gain + min(above, 0.0)
                if own == np.inf:  # the node has no alternative
                    own = abs(best[node])
                margin[node] = own
                value = threshold + own
                if chosen[node] and not value > threshold:
                    value = np.nextafter(threshold, np.inf)
                elif not chosen[node] and value > threshold:
                    value = threshold
                row[1 + columns[node]] = value


@compiled
def agree(probabilities, columns, ends, parents, exact):  # type: ignore[no-untyped-def]
    """Make probabilities consistent, in place: raise parents to children, then share a parent's among units."""
    n_units = len(ends)
    for i in range(len(probabilities)):
        row = probabilities[i]
        for unit in range(n_units - 1, -1, -1):
            parent = parents[unit]
            if parent >= 0:
                for node in range(ends[unit - 1] if unit > 0 else 0, ends[unit]):
                    row[columns[parent]] = max(row[columns[parent]], row[columns[node]])
        for unit in range(n_units):
            begin, parent = ends[unit - 1] if unit > 0 else 0, parents[unit]
            above = row[columns[parent]] if parent >= 0 else 1.0
            total = 0.0
            for node in range(begin, ends[unit]):
                total += row[columns[node]]
            if not exact[unit] and total <= above:
                continue
            for node in range(begin, ends[unit]):
                share = row[columns[node]] / total if total > 0.0 else 1.0 / (ends[unit] - begin)
                row[columns[node]] = min(share * above, above)


@compiled
def imply(signs, causes, complete, ends, parents, exact):  # type: ignore[no-untyped-def]
    """Add implied true labels, in place; return two contradicting nodes and their unit (-1: none).

    `signs` (int8, of nodes) is 1 for true, -1 for false, 0 for unknown; `causes` (int32) is the given node from which a
    value follows, at first the node itself. In a complete truth all unknown labels become false. (-1, -1, -1) means no
    contradiction; a second node of -1 means that no label of the unit can be true.
    """
    n_units = len(ends)
    for unit in range(n_units - 1, -1, -1):  # a true label has true ancestors
        begin, parent = ends[unit - 1] if unit > 0 else 0, parents[unit]
        true = -1
        for node in range(begin, ends[unit]):
            if signs[node] > 0:
                if true >= 0:
                    return causes[node], causes[true], unit
                true = node
        if true < 0:
            continue
        for node in range(begin, ends[unit]):
            if signs[node] == 0:
                signs[node], causes[node] = -1, causes[true]
        if parent >= 0:
            if signs[parent] < 0:
                return causes[true], causes[parent], unit
            if signs[parent] == 0:
                signs[parent], causes[parent] = 1, causes[true]
    if complete:
        for node in range(len(signs)):
            if signs[node] == 0:
                signs[node] = -1
    for unit in range(n_units - 1, -1, -1):  # if no child can be true, the parent is false
        if not exact[unit]:
            continue
        begin, parent = ends[unit - 1] if unit > 0 else 0, parents[unit]
        possible, last = False, begin
        for node in range(begin, ends[unit]):
            possible = possible or signs[node] >= 0
            last = max(last, causes[node])
        if possible:
            continue
        if parent < 0 or signs[parent] > 0:
            return causes[parent] if parent >= 0 else last, -1, unit
        if signs[parent] == 0:
            signs[parent], causes[parent] = -1, last
    for unit in range(n_units):  # a false label has false descendants; the last possible label of a unit is true
        begin, parent = ends[unit - 1] if unit > 0 else 0, parents[unit]
        if parent >= 0 and signs[parent] < 0:
            for node in range(begin, ends[unit]):
                if signs[node] == 0:
                    signs[node], causes[node] = -1, causes[parent]
        elif exact[unit] and (parent < 0 or signs[parent] > 0):
            unknown, left, true = 0, -1, False
            for node in range(begin, ends[unit]):
                true = true or signs[node] > 0
                if signs[node] == 0:
                    unknown, left = unknown + 1, node
            if unknown == 1 and not true:
                signs[left] = 1
    return -1, -1, -1
