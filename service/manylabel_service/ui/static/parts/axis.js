/** Round numbers between two ends, about `count` of them; whole ones where the ends are, if `whole` says so. */
export function ticks(low, high, count, whole = false) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((times) => times * power).find((each) => each >= rough);
  const step = whole && Number.isInteger(low) && Number.isInteger(high) ? Math.max(1, round) : round;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(i * step + 0); // no -0
  return found;
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 4 });
const plain = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });

/** A number beside an axis: short, since its place says the rest. */
export function tickText(value) {
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(0);
  return (Math.abs(value) >= 10_000 ? compact : plain).format(value);
}
