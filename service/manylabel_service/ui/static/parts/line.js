import { h, replace } from '../core/dom.js';
import { digits } from '../core/format.js';
import { tickText, ticks } from './axis.js';
import { Ring, thin } from './ring.js';

const COLOURS = 6;
const TABLE_ROWS = 50;
const SUMMARY_MS = 1000;
const MIN_DOT = 3; // radius in pixels
const MAX_DOT = 10;

/**
 * Curves that grow: `<ml-line heading="Micro-F1" x-title="examples learnt" y-title="micro-F1" y-min="0" y-max="1">`.
 *
 * `set(xs, {name: ys})` gives the curves of these names all their points. `push(x, {name: y})` adds one point to each
 * curve of these names. Other curves stay. `remove(name)` and `clear()` remove curves. `dots(xs, {name: ys}, counts)` gives points that are drawn as dots
 * instead, of areas by their counts of `count-title`. `marks = [{x, text}]` draws upright lines, as of drift. Attributes
 * `y-min`, `y-max`, `x-min` and `x-max` hold the ends of the axes, which else go by the curves that are shown;
 * `y-scale="log"` has it logarithmic, `diagonal` draws where y is x. Drawn once per frame at most, and not at all while
 * the chart is out of view.
 */
export class Line extends HTMLElement {
  constructor() {
    super();
    this.draws = 0; // how often it was drawn
    this._series = new Map(); // name -> {ring, hidden, colour}
    this._marks = [];
    this._frame = 0;
    this._stale = false;
    this._visible = true;
    this._pointer = null;
    this._summaryAt = 0;
  }

  connectedCallback() {
    if (!this._canvas) this._build();
    this._stop = new AbortController();
    const { signal } = this._stop;
    document.addEventListener('visibilitychange', () => this._stale && this._redraw(), { signal });
    for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
      matchMedia(query).addEventListener('change', () => this._redraw(), { signal });
    }
    this._resized = new ResizeObserver(() => this._redraw());
    this._resized.observe(this._plot);
    this._seen = new IntersectionObserver((entries) => {
      this._visible = entries[entries.length - 1].isIntersecting;
      if (this._visible && this._stale) this._redraw();
    });
    this._seen.observe(this._plot);
    this._redraw();
  }

  disconnectedCallback() {
    this._stop.abort();
    this._resized.disconnect();
    this._seen.disconnect();
    cancelAnimationFrame(this._frame);
    this._frame = 0;
  }

  /** Give curves all their points. */
  set(xs, curves) {
    for (const [name, ys] of Object.entries(curves)) {
      const { ring } = this._curve(name);
      ring.clear();
      for (let i = 0; i < xs.length; i += 1) ring.push(xs[i], ys[i]);
    }
    this._redraw();
  }

  /** Give curves all their points, to be drawn as dots, and how many each of them stands for. */
  dots(xs, curves, counts) {
    this.set(xs, curves);
    for (const name of Object.keys(curves)) this._curve(name).counts = new Map(xs.map((x, i) => [x, counts[i]]));
  }

  /** Give curves one more point each. */
  push(x, values) {
    for (const [name, y] of Object.entries(values)) this._curve(name).ring.push(x, y);
    this._redraw();
  }

  remove(name) {
    this._series.get(name)?.item?.remove();
    this._series.delete(name);
    this._redraw();
  }

  clear() {
    for (const name of [...this._series.keys()]) this.remove(name);
  }

  set marks(marks) {
    this._marks = marks;
    this._redraw();
  }

  /** Names of the curves that are shown. */
  get shown() {
    return [...this._series].filter(([, curve]) => !curve.hidden).map(([name]) => name);
  }

  _curve(name) {
    let curve = this._series.get(name);
    if (!curve) {
      const taken = new Set([...this._series.values()].map((each) => each.colour));
      let colour = 0;
      while (taken.has(colour) && colour < COLOURS - 1) colour += 1;
      curve = { ring: new Ring(Number(this.getAttribute('capacity')) || undefined), hidden: false, colour };
      this._series.set(name, curve);
      if (this._canvas) this._addToLegend(name, curve);
    }
    return curve;
  }

  _build() {
    const heading = this.getAttribute('heading') ?? '';
    this._canvas = h('canvas', { role: 'img', 'aria-label': `${heading || 'Curves'}, drawn when it is in sight` });
    this._cursor = h('div', { class: 'ml-cursor', hidden: true });
    this._plot = h('div', { class: 'ml-plot' }, this._canvas, this._cursor);
    this._legend = h('ul', { class: 'ml-legend', 'aria-label': 'Curves' });
    this._readout = h('p', { class: 'ml-readout' });
    this._table = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${heading}, values` });
    this._details = h('details', { ontoggle: () => this._details.open && this._fillTable() },
      h('summary', {}, 'Values'), this._table);
    this.append(h('figure', { class: 'ml-figure' },
      h('figcaption', {}, heading), this._legend, this._plot, this._readout, this._details));
    for (const [name, curve] of this._series) this._addToLegend(name, curve);
    this._plot.addEventListener('pointermove', (event) => this._point(event.clientX));
    this._plot.addEventListener('pointerleave', () => this._point(null));
  }

  _addToLegend(name, curve) {
    curve.swatch = h('span', { class: `ml-swatch ml-colour-${curve.colour + 1}`, 'aria-hidden': 'true' });
    curve.button = h('button', { type: 'button', class: 'ml-toggle', 'aria-pressed': 'true' }, curve.swatch, name);
    curve.button.addEventListener('click', () => {
      curve.hidden = !curve.hidden;
      curve.button.setAttribute('aria-pressed', String(!curve.hidden));
      this._redraw();
    });
    curve.item = h('li', {}, curve.button);
    this._legend.append(curve.item);
  }

  _redraw() {
    this._stale = true;
    if (this._frame || !this.isConnected || document.hidden || !this._visible) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      if (document.hidden || !this._visible) return;
      this._draw();
    });
  }

  _point(clientX) {
    this._pointer = clientX === null ? null : clientX - this._canvas.getBoundingClientRect().left;
    this._read();
  }

  // -- drawing ---------------------------------------------------------------------------------

  _scales(width, height) {
    const rings = [...this._series.values()].filter((curve) => !curve.hidden && curve.ring.length);
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    const log = this.getAttribute('y-scale') === 'log';
    for (const { ring } of rings) {
      left = Math.min(left, ring.x(0));
      right = Math.max(right, ring.x(ring.length - 1));
      for (let i = 0; i < ring.length; i += 1) {
        const y = ring.y(i);
        if (log && y <= 0) continue;
        if (y < low) low = y;
        if (y > high) high = y;
      }
    }
    const empty = !(left <= right);
    if (empty) [left, right] = [0, 1];
    if (!(low <= high)) [low, high] = log ? [0.1, 1] : [0, 1];
    if (log) [low, high] = [Math.log10(low), Math.log10(high)];
    if (left === right) [left, right] = [left - 0.5, right + 0.5];
    const given = (name) => (this.hasAttribute(name) ? Number(this.getAttribute(name)) : null);
    const room = low === high ? Math.abs(low) * 0.05 || 0.5 : (high - low) * 0.05;
    [left, right] = [given('x-min') ?? left, given('x-max') ?? right];
    low = given('y-min') ?? low - room;
    high = given('y-max') ?? high + room;
    const area = { left: 52, right: width - 12, top: 10, bottom: height - 38 };
    return {
      area, empty, left, right, low, high, log,
      toX: (x) => area.left + ((x - left) / (right - left)) * (area.right - area.left),
      toY: (y) => area.bottom - (((log ? Math.log10(y) : y) - low) / (high - low)) * (area.bottom - area.top),
      fromX: (px) => left + ((px - area.left) / (area.right - area.left)) * (right - left),
    };
  }

  _draw() {
    const { clientWidth: width, clientHeight: height } = this._plot;
    if (!width || !height) return;
    this._stale = false;
    this.draws += 1;
    const ratio = devicePixelRatio || 1;
    if (this._canvas.width !== Math.round(width * ratio) || this._canvas.height !== Math.round(height * ratio)) {
      this._canvas.width = Math.round(width * ratio);
      this._canvas.height = Math.round(height * ratio);
    }
    const pen = this._canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this._scale = this._scales(width, height);
    this._drawAxes(pen, this._scale);
    this._drawMarks(pen, this._scale);
    if (this.hasAttribute('diagonal')) this._drawDiagonal(pen, this._scale);
    for (const curve of this._series.values()) {
      if (curve.hidden) continue;
      if (curve.counts) this._drawDots(pen, curve, this._scale);
      else this._drawCurve(pen, curve, this._scale);
    }
    this._read();
    this._summarise();
  }

  _drawAxes(pen, { area, empty, left, right, low, high, log, toX, toY }) {
    const style = getComputedStyle(this);
    const text = style.color;
    pen.font = `13px ${style.fontFamily}`;
    pen.lineWidth = 1;
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    for (const tick of ticks(low, high, 4)) {
      const y = Math.round(toY(log ? 10 ** tick : tick)) + 0.5;
      this._rule(pen, text, area.left, y, area.right, y);
      pen.fillStyle = text;
      pen.fillText(tickText(log ? 10 ** tick : tick), area.left - 6, y);
    }
    pen.textBaseline = 'top';
    pen.textAlign = 'center';
    for (const tick of empty ? [] : ticks(left, right, Math.max(3, Math.floor((area.right - area.left) / 110)), !this.hasAttribute('x-max'))) {
      const x = Math.round(toX(tick)) + 0.5;
      this._rule(pen, text, x, area.bottom, x, area.bottom + 4);
      pen.fillStyle = text;
      pen.fillText(tickText(tick), Math.min(x, area.right - 8), area.bottom + 6);
    }
    pen.fillText(this.getAttribute('x-title') ?? '', (area.left + area.right) / 2, area.bottom + 22);
  }

  _rule(pen, colour, x1, y1, x2, y2) {
    pen.strokeStyle = colour;
    pen.globalAlpha = 0.18;
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  _drawMarks(pen, { area, left, right, toX }) {
    pen.strokeStyle = getComputedStyle(this).color;
    pen.setLineDash([3, 3]);
    for (const { x } of this._marks) {
      if (x < left || x > right) continue;
      pen.beginPath();
      pen.moveTo(toX(x), area.top);
      pen.lineTo(toX(x), area.bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  _drawDiagonal(pen, { left, right, low, high, toX, toY }) {
    const [from, to] = [Math.max(left, low), Math.min(right, high)];
    pen.strokeStyle = getComputedStyle(this).color;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(toX(from), toY(from));
    pen.lineTo(toX(to), toY(to));
    pen.stroke();
    pen.setLineDash([]);
  }

  _drawDots(pen, { ring, counts, swatch }, { toX, toY }) {
    const most = Math.max(...counts.values());
    pen.fillStyle = getComputedStyle(swatch).backgroundColor;
    for (let i = 0; i < ring.length; i += 1) {
      const radius = Math.max(MIN_DOT, MAX_DOT * Math.sqrt(counts.get(ring.x(i)) / most));
      pen.beginPath();
      pen.arc(toX(ring.x(i)), toY(ring.y(i)), radius, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  _drawCurve(pen, { ring, swatch }, { area, left, right, log, toX, toY }) {
    if (!ring.length) return;
    const columns = Math.max(1, Math.round((area.right - area.left) * (devicePixelRatio || 1)));
    pen.save();
    pen.beginPath();
    pen.rect(area.left, area.top - 2, area.right - area.left, area.bottom - area.top + 4);
    pen.clip();
    pen.strokeStyle = pen.fillStyle = getComputedStyle(swatch).backgroundColor;
    pen.lineWidth = 2;
    pen.lineJoin = 'round';
    pen.beginPath();
    const kept = thin(ring, left, right, columns).filter((i) => !log || ring.y(i) > 0);
    for (const i of kept) pen.lineTo(toX(ring.x(i)), toY(ring.y(i)));
    pen.stroke();
    if (kept.length === 1) {
      pen.beginPath();
      pen.arc(toX(ring.x(kept[0])), toY(ring.y(kept[0])), 3, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.restore();
  }

  // -- reading ---------------------------------------------------------------------------------

  /** Show the values under the pointer, or the last ones. */
  _read() {
    const shown = [...this._series].filter(([, curve]) => !curve.hidden && curve.ring.length);
    const pointed = this._pointer !== null && this._scale && shown.length > 0;
    this._cursor.hidden = !pointed;
    if (!shown.length) {
      this._readout.textContent = [...this._series.values()].some((curve) => curve.ring.length) ? '' : 'No values yet.';
      return;
    }
    let at = Math.max(...shown.map(([, { ring }]) => ring.x(ring.length - 1)));
    if (pointed) {
      const wanted = this._scale.fromX(this._pointer);
      const nearest = shown.map(([, { ring }]) => ring.x(ring.nearest(wanted)));
      at = nearest.reduce((best, x) => (Math.abs(x - wanted) < Math.abs(best - wanted) ? x : best));
      this._cursor.style.left = `${this._scale.toX(at)}px`;
      this._cursor.style.top = `${this._scale.area.top}px`;
      this._cursor.style.height = `${this._scale.area.bottom - this._scale.area.top}px`;
    }
    const values = shown.map(([name, { ring, counts }]) => {
      const i = ring.nearest(at);
      const number = counts && [' · ', counts.get(ring.x(i)).toLocaleString('en'), ' ', this.getAttribute('count-title')];
      return [name, ' ', digits(String(ring.y(i))), number];
    });
    const missing = [...this._series].filter(([, curve]) => !curve.hidden && !curve.ring.length).map(([name]) => `${name}: no values yet`);
    const near = this._marks.filter(({ x }) => x === at).map(({ text }) => text);
    const x = Number.isInteger(at) ? at.toLocaleString('en') : digits(String(at));
    const parts = [[x, ' ', this.getAttribute('x-title')], ...values, ...missing, ...near];
    replace(this._readout, parts.map((part, i) => [i > 0 && ' · ', part]));
  }

  /** Say in words what the canvas shows; not at every frame, since a screen reader may read each change. */
  _summarise() {
    const now = performance.now();
    if (this._summaryAt && now - this._summaryAt < SUMMARY_MS) return;
    this._summaryAt = now;
    const curves = [...this._series].filter(([, curve]) => curve.ring.length).map(([name, { ring }]) => {
      const last = ring.length - 1;
      return `${name} goes from ${ring.y(0)} at ${ring.x(0)} to ${ring.y(last)} at ${ring.x(last)}`;
    });
    const marks = this._marks.length ? [`marks at ${this._marks.map(({ x, text }) => `${x} (${text})`).join(', ')}`] : [];
    const axes = `${this.getAttribute('y-title') ?? 'values'} by ${this.getAttribute('x-title') ?? 'x'}`;
    this._canvas.setAttribute('aria-label',
      `${this.getAttribute('heading') ?? 'Chart'}: ${axes}. ${[...curves, ...marks].join('; ') || 'No values yet'}.`);
    if (this._details.open) this._fillTable();
  }

  /** Fill the table with at most a fixed number of values, evenly chosen, the last one included. */
  _fillTable() {
    const shown = [...this._series].filter(([, curve]) => !curve.hidden && curve.ring.length);
    const all = [...new Set(shown.flatMap(([, { ring }]) => Array.from({ length: ring.length }, (_, i) => ring.x(i))))];
    all.sort((a, b) => a - b);
    const every = Math.max(1, Math.ceil(all.length / TABLE_ROWS));
    const xs = all.filter((_, i) => (all.length - 1 - i) % every === 0).reverse();
    const value = (ring, x) => {
      const i = ring.countBelow(x);
      return i < ring.length && ring.x(i) === x ? digits(String(ring.y(i))) : '';
    };
    this._table.replaceChildren(h('table', {},
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, this.getAttribute('x-title') ?? 'x'),
        shown.map(([name, { counts }]) => [h('th', { scope: 'col' }, name),
          counts && h('th', { scope: 'col' }, this.getAttribute('count-title'))]))),
      h('tbody', {}, xs.map((x) => h('tr', {}, h('th', { scope: 'row' }, digits(String(x))),
        shown.map(([, { ring, counts }]) => [h('td', {}, value(ring, x)), counts && h('td', {}, (counts.get(x) ?? '').toLocaleString('en'))]))))));
  }
}

customElements.define('ml-line', Line);
