import { h, replace } from '../core/dom.js';

const AT_ONCE = 100;
let tables = 0;

/**
 * A native table that sorts, filters and takes its time with long lists: `<ml-table caption="Labels">`.
 *
 * `set(columns, rows, {key, sort, descending, empty})` shows the rows. A column is `{key, title, numeric, format, sortable,
 * help}`: `format(value, row)` returns a text or a node, `sortable: false` takes its button away, `help` says what it is.
 * `key` is the column that tells rows apart (the first): a row whose values stay keeps its elements, and with them the
 * focus, when `set` or `update(rows)` comes again. Rows without a value come last either way. A hundred are shown at
 * once; with more there is a field to filter them by any text in them, and a button for a hundred more.
 */
export class Table extends HTMLElement {
  constructor() {
    super();
    this._columns = [];
    this._rows = [];
    this._elements = new Map();
    this._limit = AT_ONCE;
    this._sort = null;
    this._descending = false;
  }

  set(columns, rows, { key, sort = null, descending = false, empty = 'Nothing here yet.' } = {}) {
    this._columns = columns;
    this._key = key ?? columns[0].key;
    this._empty = empty;
    if (this._sort === null) [this._sort, this._descending] = [sort, descending];
    this._elements.clear();
    this._build();
    this.update(rows);
  }

  /** Show other rows, sorted and filtered as before. */
  update(rows) {
    this._rows = rows;
    this._draw();
  }

  _build() {
    tables += 1;
    const caption = this.getAttribute('caption') ?? '';
    const id = `ml-table-${tables}`;
    this._filter = h('input', { id, type: 'search', autocomplete: 'off', oninput: () => { this._limit = AT_ONCE; this._draw(); } });
    this._filterRow = h('p', { class: 'ml-filter' }, h('label', { for: id }, 'Filter '), this._filter);
    this._count = h('p', { class: 'ml-count', role: 'status' });
    this._more = h('button', { type: 'button', onclick: () => { this._limit += AT_ONCE; this._draw(); } });
    this._headers = this._columns.map((column) => this._header(column));
    this._body = h('tbody');
    replace(this, this._filterRow,
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption || 'Table' },
        h('table', {}, caption ? h('caption', {}, caption) : null, h('thead', {}, h('tr', {}, this._headers)), this._body)),
      h('div', { class: 'ml-below' }, this._count, this._more));
  }

  _header({ key, title, numeric, sortable, help }) {
    const sort = () => {
      this._descending = this._sort === key ? !this._descending : Boolean(numeric);
      this._sort = key;
      this._draw();
    };
    return h('th', { scope: 'col', class: numeric ? 'number' : null, title: help },
      sortable === false ? title : h('button', { type: 'button', class: 'ml-sort', onclick: sort }, title));
  }

  _draw() {
    const found = this._found();
    this._columns.forEach(({ key, sortable }, i) => {
      if (sortable === false) return;
      const order = key !== this._sort ? 'none' : this._descending ? 'descending' : 'ascending';
      this._headers[i].setAttribute('aria-sort', order);
    });
    const shown = found.slice(0, this._limit);
    const elements = new Map();
    shown.forEach((row, i) => elements.set(row[this._key] ?? i, this._element(row, row[this._key] ?? i)));
    this._elements = elements;
    const wanted = shown.length ? [...elements.values()].map(({ element }) => element) : [this._emptyRow()];
    this._place(wanted);
    this._filterRow.hidden = this._rows.length <= AT_ONCE;
    this._count.textContent = this._rows.length > AT_ONCE
      ? `${shown.length.toLocaleString('en')} of ${found.length.toLocaleString('en')} shown` : '';
    this._more.hidden = shown.length === found.length;
    this._more.textContent = `Show ${Math.min(AT_ONCE, found.length - shown.length)} more`;
  }

  /** Put rows in their order; those that are there already are not taken out, which would cost the focus. */
  _place(wanted) {
    const keep = new Set(wanted);
    for (const child of [...this._body.children]) if (!keep.has(child)) child.remove();
    wanted.forEach((element, i) => {
      if (this._body.children[i] !== element) this._body.insertBefore(element, this._body.children[i] ?? null);
    });
  }

  _found() {
    const words = this._filter.value.trim().toLowerCase();
    const rows = words && !this._filterRow.hidden
      ? this._rows.filter((row) => this._columns.some(({ key }) => String(row[key] ?? '').toLowerCase().includes(words)))
      : [...this._rows];
    if (this._sort === null) return rows;
    const sign = this._descending ? -1 : 1;
    return rows.sort((one, other) => {
      const [a, b] = [one[this._sort] ?? null, other[this._sort] ?? null];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
    });
  }

  _element(row, key) {
    let known = this._elements.get(key);
    if (!known) {
      known = { element: h('tr'), values: [] };
      this._columns.forEach(({ numeric }, i) => {
        known.element.append(h(i === 0 ? 'th' : 'td', { scope: i === 0 ? 'row' : null, class: numeric ? 'number' : null }));
      });
    }
    this._columns.forEach(({ key: name, format }, i) => {
      const value = row[name] ?? null;
      const same = JSON.stringify(value);
      if (known.values[i] === same) return;
      known.values[i] = same;
      const cell = format ? format(value, row) : value;
      replace(known.element.children[i], cell ?? '–');
    });
    return known;
  }

  _emptyRow() {
    return h('tr', {}, h('td', { class: 'ml-empty', colspan: this._columns.length },
      this._rows.length ? 'No row has this text.' : this._empty));
  }
}

customElements.define('ml-table', Table);
