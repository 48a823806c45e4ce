/** How well labels are predicted, by how often each had been seen before the example. */

import '../../parts/table.js';
import { h, replace } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { section } from '../../core/section.js';

const GROUPS = { never: 'never', below_5: '1 to 4 times', below_20: '5 to 19 times', more: '20 times or more' };
const COLUMNS = [
  { key: 'seen', title: 'Label seen before', sortable: false },
  { key: 'true', title: 'True', numeric: true, sortable: false, format: count, help: 'number of true labels of this group, in all examples' },
  { key: 'precision', title: 'Precision', numeric: true, sortable: false, format: value, help: 'share of the predictions that were right' },
  { key: 'recall', title: 'Recall', numeric: true, sortable: false, format: value, help: 'share of the true labels that were predicted' },
  { key: 'f1', title: 'F1', numeric: true, sortable: false, format: value },
];
const HELP = 'All decisions since the start, each by the number of examples that the label had before.';

export function seen(live) {
  const table = h('ml-table', { caption: 'Measures by how often a label was seen' });
  table.set(COLUMNS, [], { key: 'seen', empty: 'No example was measured yet.' });
  live.on(({ metrics }) => table.update(metrics?.by_seen ? rows(metrics.by_seen) : []));
  return section('Rare and frequent labels', { signal: live.signal, help: HELP }, (body) => replace(body, table));
}

/** Return a row for each group; measures of a group without true labels are omitted. */
export function rows(bySeen) {
  return Object.entries(GROUPS).map(([group, seenBefore]) => {
    const { true: n, precision, recall, f1 } = bySeen[group];
    return { seen: seenBefore, true: n, ...(n > 0 ? { precision, recall, f1 } : {}) };
  });
}
