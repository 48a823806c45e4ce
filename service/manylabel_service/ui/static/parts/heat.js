import { h, replace } from '../core/dom.js';
import { digits } from '../core/format.js';
import { clusterOrder } from './cluster.js';

const MAX_CLUSTERED = 300;
const MAX_PAIRS = 50;
const LABEL_PX = 13;

/**
 * A matrix as colours: `<ml-heat heading="Correlation of labels" min="-1" max="1">`.
 *
 * `set(rows, columns, values)` takes names and a list of rows of numbers. Where rows and columns have the same names, at
 * most 300, those alike stand together; a button gives back the order that came. Blue is above zero, orange below, and the
 * value under the pointer is written out. The pairs with the largest values stand below as a table.
 */
export class Heat extends HTMLElement {
  connectedCallback() {
    if (!this._canvas) this._build();
    this._stop = new AbortController();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this._redraw(), { signal: this._stop.signal });
    this._resized = new ResizeObserver(() => this._redraw());
    this._resized.observe(this._plot);
  }

  disconnectedCallback() {
    this._stop.abort();
    this._resized.disconnect();
    cancelAnimationFrame(this._frame);
    this._frame = 0;
  }

  set(rows, columns, values) {
    if (!this._canvas) this._build();
    Object.assign(this, { _rows: rows, _columns: columns, _values: values });
    this._square = rows.length === columns.length && rows.every((name, i) => name === columns[i]);
    this._clustered = this._square && rows.length <= MAX_CLUSTERED ? clusterOrder(values) : null;
    this._button.hidden = !this._clustered;
    this._arrange(Boolean(this._clustered));
    this._fillTable();
  }

  /** The names of the rows as they are shown, from above. */
  get order() {
    return this._rowOrder.map((i) => this._rows[i]);
  }

  _build() {
    this._canvas = h('canvas', { role: 'img', 'aria-label': `${this.getAttribute('heading') ?? 'Matrix'}, drawn when it is in sight` });
    this._plot = h('div', { class: 'ml-plot ml-heat-plot' }, this._canvas);
    this._button = h('button', { type: 'button', 'aria-pressed': 'true', onclick: () => this._arrange(!this._isClustered) },
      'Those alike together');
    this._readout = h('p', { class: 'ml-readout' });
    this._table = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Largest values' });
    this._legend = h('p', { class: 'ml-heat-legend' }, h('span', { class: 'ml-swatch ml-below', 'aria-hidden': 'true' }), ' below 0  ',
      h('span', { class: 'ml-swatch ml-above', 'aria-hidden': 'true' }), ' above 0; the stronger, the larger');
    this.append(h('figure', { class: 'ml-figure' }, h('figcaption', {}, this.getAttribute('heading') ?? ''),
      this._button, this._plot, this._legend, this._readout,
      h('details', {}, h('summary', {}, 'Largest values'), this._table)));
    this._plot.addEventListener('pointermove', (event) => this._read(event));
    this._plot.addEventListener('pointerleave', () => { this._readout.textContent = ''; });
  }

  _arrange(clustered) {
    this._isClustered = clustered;
    this._button.setAttribute('aria-pressed', String(clustered));
    const asGiven = (names) => names.map((_, i) => i);
    this._rowOrder = clustered ? this._clustered : asGiven(this._rows);
    this._columnOrder = clustered ? this._clustered : asGiven(this._columns);
    this._redraw();
  }

  _redraw() {
    if (this._frame || !this._values || !this.isConnected) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._draw();
    });
  }

  _draw() {
    const width = this._plot.clientWidth;
    const [n, m] = [this._rows.length, this._columns.length];
    if (!width || !n || !m) return;
    const names = Math.min(160, Math.max(60, width * 0.25));
    let cell = Math.min(28, (width - 4) / m);
    const named = Math.min(28, (width - names) / m) >= LABEL_PX + 1;
    const left = named ? names : 0;
    if (named) cell = Math.min(28, (width - names) / m);
    const height = n * cell;
    const ratio = devicePixelRatio || 1;
    this._canvas.style.height = `${height}px`;
    this._canvas.style.width = `${left + m * cell}px`;
    this._canvas.width = Math.round((left + m * cell) * ratio);
    this._canvas.height = Math.round(height * ratio);
    this._place = { left, cell };
    const pen = this._canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this);
    const [below, above] = [...this._legend.querySelectorAll('.ml-swatch')].map((each) => getComputedStyle(each).backgroundColor);
    const most = this._most();
    this._rowOrder.forEach((i, row) => this._columnOrder.forEach((j, column) => {
      const value = this._values[i][j];
      if (value === null || value === undefined) return;
      pen.globalAlpha = Math.min(1, Math.abs(value) / most);
      pen.fillStyle = value < 0 ? below : above;
      pen.fillRect(left + column * cell, row * cell, Math.ceil(cell * ratio) / ratio, Math.ceil(cell * ratio) / ratio);
    }));
    pen.globalAlpha = 1;
    if (named) this._drawNames(pen, style, left, cell);
    this._canvas.setAttribute('aria-label', `${this.getAttribute('heading') ?? 'Matrix'}: ${n} rows, ${m} columns. ${this._strongest}`);
  }

  _drawNames(pen, style, left, cell) {
    pen.fillStyle = style.color;
    pen.font = `${LABEL_PX}px ${style.fontFamily}`;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    this._rowOrder.forEach((i, row) => pen.fillText(shortened(pen, this._rows[i], left - 8), left - 6, (row + 0.5) * cell));
  }

  _most() {
    const given = Math.max(Math.abs(Number(this.getAttribute('min'))), Math.abs(Number(this.getAttribute('max'))));
    if (given) return given;
    let most = 0;
    for (const row of this._values) for (const value of row) most = Math.max(most, Math.abs(value ?? 0));
    return most || 1;
  }

  _read(event) {
    if (!this._place) return;
    const box = this._canvas.getBoundingClientRect();
    const i = this._rowOrder[Math.floor((event.clientY - box.top) / this._place.cell)];
    const j = this._columnOrder[Math.floor((event.clientX - box.left - this._place.left) / this._place.cell)];
    this._readout.textContent = i === undefined || j === undefined
      ? '' : `${this._rows[i]} · ${this._columns[j]}: ${this._values[i][j] ?? 'none'}`;
  }

  _fillTable() {
    const pairs = [];
    for (let i = 0; i < this._rows.length; i += 1) {
      for (let j = this._square ? i + 1 : 0; j < this._columns.length; j += 1) {
        if (this._values[i][j] !== null && this._values[i][j] !== undefined) pairs.push([i, j, this._values[i][j]]);
      }
    }
    pairs.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    const name = ([i, j, value]) => `${this._rows[i]} and ${this._columns[j]}: ${value}`;
    this._strongest = pairs.length ? `Largest: ${pairs.slice(0, 3).map(name).join('; ')}.` : '';
    replace(this._table, h('table', {},
      h('thead', {}, h('tr', {}, ['Row', 'Column', 'Value'].map((title) => h('th', { scope: 'col' }, title)))),
      h('tbody', {}, pairs.slice(0, MAX_PAIRS).map(([i, j, value]) => h('tr', {},
        h('td', {}, this._rows[i]), h('td', {}, this._columns[j]), h('td', { class: 'number' }, digits(String(value))))))));
  }
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

customElements.define('ml-heat', Heat);
