/** The labels of a model one by one. */

import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { repeat, section } from '../../core/section.js';

const MOST = 1_000; // that one call lists
const FEW = 200;
const LOOK_MS = 4_000;
const SLOW_LOOK_MS = 20_000; // of many labels
const ENOUGH = 5; // examples, for a label to be among the worst

export function labels(live) {
  let over = 'window';
  let found = { labels: [], total: 0 };
  let seen = null;
  const table = h('ml-table', { caption: 'Labels one by one' });
  const worst = h('p', {});
  const note = h('p', { class: 'quiet' });
  const draw = () => {
    table.update(found.labels.map((label) => row(label, over)));
    replace(worst, lowest(found.labels, over));
    replace(note, found.total > found.labels.length && `The ${count(found.labels.length)} most frequent of ${count(found.total)} labels.`);
  };
  const choice = h('select', { id: 'over', onchange: () => { over = choice.value; draw(); } },
    h('option', { value: 'window' }, 'the latest examples'), h('option', { value: 'cumulative' }, 'all examples'));
  table.set(COLUMNS, [], { key: 'label', sort: 'frequency', descending: true, empty: live.trained ? 'No answer was labelled yet.' : 'No label was learnt yet.' });
  return section('Labels', { signal: live.signal, help: 'A label is predicted if its probability is at least Threshold. Calibration turns scores into probabilities: slope times score plus intercept, in log-odds.' }, (body) => {
    let failed = null;
    const look = async () => {
      if (seen === live.status.position && seen !== null && !live.trained) return;
      try {
        found = await call('GET', ofModel(live.name, 'labels'), { query: { limit: MOST }, signal: live.signal });
        seen = found.position;
        failed = null;
        draw();
      } catch (error) {
        if (error.status !== 0) failed = error;
        if (found.labels.length === 0 && error.status !== 0) throw error;
      }
    };
    replace(body, h('div', { class: 'row' }, h('label', { for: 'over' }, 'Measured on'), choice), worst, table, note);
    return look().then(() => {
      const every = found.total > FEW ? SLOW_LOOK_MS : LOOK_MS;
      setTimeout(() => repeat(every, () => look().catch(() => failed), live.signal), every);
    });
  });
}

/** Show a label with its title, and whether it is retired, paused or still being learnt. */
function named(label, row) {
  const { title, description } = row;
  const tag = tagOf(row);
  return [label, title && [' ', h('span', { class: 'quiet', title: description }, title)], tag && [' ', h('span', { class: 'tag' }, tag)]];
}

const COLUMNS = [
  { key: 'label', title: 'Label', format: named },
  { key: 'f1', title: 'F1', numeric: true, format: value },
  { key: 'precision', title: 'Precision', numeric: true, format: value, help: 'share of its predictions that were right' },
  { key: 'recall', title: 'Recall', numeric: true, format: value, help: 'share of its examples that were found' },
  { key: 'frequency', title: 'Frequency', numeric: true, format: value, help: 'share of the examples that have it' },
  { key: 'examples', title: 'Examples', numeric: true, format: count },
  { key: 'threshold', title: 'Threshold', numeric: true, format: value },
  { key: 'slope', title: 'Slope', numeric: true, format: value, help: 'of the calibration' },
  { key: 'intercept', title: 'Intercept', numeric: true, format: value, help: 'of the calibration' },
  { key: 'alarms', title: 'Drift', numeric: true, format: (n, { last }) => (n ? h('span', { class: 'tag warn', title: `last at example ${last}` }, `${n} ▲`) : value(n)) },
  { key: 'last_seen', title: 'Last seen', numeric: true, format: count, help: 'the number of the last example that had it' },
];

function tagOf({ retired, paused, learning }) {
  if (retired || paused) return retired ? 'retired' : 'paused';
  return learning && `learning, ${learning.seen} of ${learning.needed}`;
}

function row(label, over) {
  return {
    ...label, ...label[over], slope: label.calibration?.slope, intercept: label.calibration?.intercept,
    alarms: label.drift?.alarms, last: label.drift?.last,
  };
}

/** Say which labels are predicted worst. */
function lowest(all, over) {
  const rated = all.filter((label) => !label.retired && !label.paused && label.examples >= ENOUGH && label[over].f1 !== null);
  rated.sort((a, b) => a[over].f1 - b[over].f1);
  if (rated.length < 2) return null;
  return ['Lowest F1: ', rated.slice(0, 3).map((label, i) => [i > 0 && ', ', h('strong', {}, label.label), ' ', value(label[over].f1)]),
    h('span', { class: 'quiet' }, ` (of labels that ${ENOUGH} examples or more had)`)];
}
