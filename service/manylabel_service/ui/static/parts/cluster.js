/**
 * An order in which those alike stand together: the leaves of average linkage.
 *
 * The chain of nearest neighbours finds the same merges as looking for the closest pair each time does (average linkage
 * is reducible) in time that grows with the square of n. Each of two merged clusters is turned so that the
 * ends that meet are as close as they can be.
 *
 * @param {number[][]} likeness symmetric, n by n, as a correlation: the larger, the closer
 * @returns {number[]} the rows in their new order
 */
export function clusterOrder(likeness) {
  const n = likeness.length;
  if (n < 3) return likeness.map((_, i) => i);
  const apart = likeness.map((row) => Float64Array.from(row, (value) => 1 - (value ?? 0)));
  const leaves = likeness.map((_, i) => [i]);
  const alive = new Set(leaves.keys());
  const chain = [];
  while (alive.size > 1) {
    if (!chain.length) chain.push(alive.values().next().value);
    const tip = chain[chain.length - 1];
    const before = chain[chain.length - 2];
    let nearest = before ?? -1; // of equals the one before, or the chain would not end
    for (const other of alive) {
      if (other !== tip && (nearest === -1 || apart[tip][other] < apart[tip][nearest])) nearest = other;
    }
    if (nearest !== before) {
      chain.push(nearest);
      continue;
    }
    chain.length -= 2;
    const [into, from] = tip < nearest ? [tip, nearest] : [nearest, tip];
    const [a, b] = [leaves[into].length, leaves[from].length];
    leaves[into] = joined(leaves[into], leaves[from], likeness);
    alive.delete(from);
    for (const other of alive) {
      if (other !== into) {
        apart[into][other] = apart[other][into] = (a * apart[into][other] + b * apart[from][other]) / (a + b);
      }
    }
  }
  return leaves[alive.values().next().value];
}

function joined(left, right, likeness) {
  const ends = [
    [left, right], [[...left].reverse(), right], [left, [...right].reverse()], [[...left].reverse(), [...right].reverse()],
  ];
  const meeting = ([a, b]) => likeness[a[a.length - 1]][b[0]] ?? 0;
  return ends.reduce((best, pair) => (meeting(pair) > meeting(best) ? pair : best)).flat();
}
