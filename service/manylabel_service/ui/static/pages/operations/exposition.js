/** Reads Prometheus' text format, as far as sums of a metric ask for. */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;

/** Return what an answer of /metrics says: `sum(name)` over all labels, `has(name)`, `label(name, label)` of the first. */
export function read(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const [, name, labels, value] = line.match(LINE) ?? [];
    if (name === undefined) continue;
    const one = found.get(name) ?? { sum: 0, labels };
    one.sum += Number(value);
    found.set(name, one);
  }
  return {
    sum: (name) => found.get(name)?.sum ?? 0,
    has: (name) => found.has(name),
    label: (name, label) => found.get(name)?.labels?.match(new RegExp(`${label}="([^"]*)"`))?.[1] ?? '–',
  };
}
