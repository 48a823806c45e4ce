/** Fields of the records of an online model: kinds, values and warnings. */

import '../../parts/table.js';
import { h, replace } from '../../core/dom.js';
import { count } from '../../core/format.js';
import { section } from '../../core/section.js';

const COLUMNS = [
  { key: 'name', title: 'Field' },
  { key: 'kind', title: 'Kind' },
  { key: 'such', title: 'Such as', sortable: false },
  { key: 'share', title: 'Examples', numeric: true, format: (share) => `${Math.round(100 * share)} %`, help: 'share of the examples that have the field' },
  { key: 'warnings', title: 'Warnings', sortable: false },
];
const HELP = 'What the examples have had so far. A field with values of several kinds has a feature for each.';

export function fields(live) {
  const table = h('ml-table', { caption: 'Fields of the examples' });
  table.set(COLUMNS, [], { key: 'name', empty: 'No named feature or field was learnt yet.' });
  const more = h('p', { class: 'quiet' });
  live.on(({ fields: listed = [], n_fields: n = 0 }) => {
    table.update(rows(listed));
    replace(more, n > listed.length && `${count(n - listed.length)} fields that fewer examples have are not listed.`);
  });
  return section('Fields', { signal: live.signal, help: HELP }, (body) => replace(body, table, more));
}

/** Return a row for each field. */
export function rows(listed) {
  return listed.map(({ name, kind, share, examples, warnings }) => (
    { name, kind, such: examples.join(', '), share: share ?? undefined, warnings: warnings.join('; ') }));
}
