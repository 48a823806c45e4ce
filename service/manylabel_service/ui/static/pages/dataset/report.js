/** What was understood of a file: columns, labels, the first rows, and what is strange. */

import '../../parts/table.js';
import { h } from '../../core/dom.js';
import { counted } from '../../core/format.js';
import { facts } from '../../core/section.js';
import { KINDS } from './reading.js';

const FEATURES = ['number', 'category', 'text', 'flag', 'vector', 'date', 'ignored'];
const MOST_LABELS = 1_000;

/**
 * Return the elements of a report.
 *
 * @param {Object} report as `GET /v1/datasets/{name}?details=true` has it
 * @param {Object} [options] `declared(column)`: the kind that a column was declared as, or ''; `declare(column, kind)` is
 *   called when another one is chosen. Without them, kinds are only shown.
 */
export function reportOf(report, { declared = null, declare = null } = {}) {
  const labels = h('ml-table', { caption: 'Labels' });
  labels.set([
    { key: 'name', title: 'Label' },
    { key: 'rows', title: 'Rows', numeric: true, format: number },
  ], Object.entries(report.labels).slice(0, MOST_LABELS).map(([name, rows]) => ({ name, rows })), { sort: 'rows', descending: true, empty: 'No row has a label.' });
  return [
    report.warnings.length > 0 && h('ul', { class: 'warn', 'aria-label': 'Notes' }, report.warnings.map((warning) => h('li', {}, warning))),
    facts([
      ['Rows', number(report.rows)],
      ['With known labels', number(report.rows - report.unlabelled)],
      ...Object.entries(report.omitted).map(([reason, n]) => ['Omitted', `${counted(n, 'row')} ${reason}`]),
      ...Object.entries(report.settings).map(([name, value]) => [name, value]),
    ]),
    report.columns.length > 0 && columnsOf(report.columns, declared, declare),
    Object.keys(report.labels).length > MOST_LABELS && h('p', { class: 'quiet' }, `The first ${number(MOST_LABELS)} of ${number(Object.keys(report.labels).length)} labels:`),
    labels,
    h('h3', {}, 'The first rows, as they are learnt'),
    h('pre', { class: 'scroll', tabindex: 0, 'aria-label': 'The first rows' }, report.first.map((row) => `${JSON.stringify(row)}\n`)),
  ];
}

function columnsOf(columns, declared, declare) {
  const table = h('ml-table', { caption: 'Columns' });
  table.set([
    { key: 'name', title: 'Column' },
    { key: 'kind', title: 'Kind', format: (kind, { note }) => [kind, note && h('div', { class: 'quiet' }, note)] },
    { key: 'values', title: 'Values', numeric: true, format: number },
    { key: 'missing', title: 'Missing', numeric: true, format: number },
    { key: 'odd', title: 'Odd', numeric: true, format: (n, row) => [number(n), row.odd_cells.slice(0, 3).map(({ line, cell }) => h('div', { class: 'quiet' }, `line ${line}: ${cell}`))] },
    { key: 'example', title: 'Example' },
    ...(declare ? [{ key: 'place', title: 'Read it as', sortable: false, format: (_, column) => (FEATURES.includes(column.kind) ? chooser(column.name, declared, declare) : '') }] : []),
  ], columns.map((column, place) => ({ ...column, place })), { key: 'place' });
  return table;
}

function chooser(name, declared, declare) {
  return h('select', { 'aria-label': `Read ${name} as`, onchange: (event) => declare(name, event.target.value) },
    ['', ...KINDS].map((kind) => h('option', { value: kind, selected: declared(name) === kind }, kind || 'by its cells')));
}

const number = (n) => n.toLocaleString('en');
