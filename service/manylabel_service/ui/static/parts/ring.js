/**
 * Points of a curve in typed arrays: the newest `capacity` of them, so that a page that is open for days grows no more.
 *
 * x never falls. A point at or before the last one replaces it and later ones: a model that is rolled
 * back continues its curve from there.
 */
export class Ring {
  constructor(capacity = 8192) {
    this.capacity = capacity;
    this.length = 0;
    this._xs = new Float64Array(capacity);
    this._ys = new Float64Array(capacity);
    this._first = 0;
  }

  /** Add a point; one without a finite y is omitted. */
  push(x, y) {
    if (y === null || y === undefined || !Number.isFinite(y) || !Number.isFinite(x)) return;
    while (this.length && this.x(this.length - 1) >= x) this.length -= 1;
    if (this.length === this.capacity) {
      this._first = (this._first + 1) % this.capacity;
      this.length -= 1;
    }
    const at = (this._first + this.length) % this.capacity;
    this._xs[at] = x;
    this._ys[at] = y;
    this.length += 1;
  }

  clear() {
    this.length = 0;
  }

  /** The x of the i-th point, the oldest being 0. */
  x(i) {
    return this._xs[(this._first + i) % this.capacity];
  }

  y(i) {
    return this._ys[(this._first + i) % this.capacity];
  }

  /** How many points have an x below this one. */
  countBelow(x) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x(middle) < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The point whose x is closest, or -1 if empty. */
  nearest(x) {
    if (!this.length) return -1;
    const after = this.countBelow(x);
    if (after === this.length) return after - 1;
    return after > 0 && x - this.x(after - 1) <= this.x(after) - x ? after - 1 : after;
  }
}

/**
 * Which points make the same picture as all of them: of each column of pixels the first, the lowest, the highest and
 * the last one, in the order of x. A line through these covers the same pixels.
 *
 * @param {Ring} ring
 * @param {number} from the x at the left edge
 * @param {number} to the x at the right edge
 * @param {number} columns of pixels between them
 * @returns {number[]} their indices in the ring, at most four a column, rising
 */
export function thin(ring, from, to, columns) {
  const kept = [];
  const scale = to > from ? columns / (to - from) : 0;
  let column = -1;
  let first = 0;
  let lowest = 0;
  let highest = 0;
  const close = (end) => {
    for (const index of [first, Math.min(lowest, highest), Math.max(lowest, highest), end]) {
      if (kept.length === 0 || kept[kept.length - 1] < index) kept.push(index);
    }
  };
  for (let i = 0; i < ring.length; i += 1) {
    const at = Math.floor((ring.x(i) - from) * scale);
    if (i === 0 || at !== column) {
      if (i > 0) close(i - 1);
      column = at;
      first = lowest = highest = i;
    } else {
      if (ring.y(i) < ring.y(lowest)) lowest = i;
      if (ring.y(i) > ring.y(highest)) highest = i;
    }
  }
  if (ring.length) close(ring.length - 1);
  return kept;
}
