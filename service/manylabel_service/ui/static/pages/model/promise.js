/** The promise of precision of a model, and its account: what was applied unseen, and how many errors are left. */

import '../../parts/bars.js';
import '../../parts/line.js';
import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { facts, repeat, section } from '../../core/section.js';
import { promised } from './parity.js';

const LOOK_MS = 4_000;
const HELP = 'Predictions say which labels may be applied unseen, and which examples need no review. In the long run at least the promised share '
  + 'of applied labels is right, with never more than a handful of errors beyond it. Only labels of people count.';
const STATES = { learning: 'learning: nothing is applied yet', open: 'open', closed: 'closed: too many errors' };
const ROWS = [
  ['applied', 'Labels applied', count], ['wrong', 'Wrong', count], ['precision', 'Precision', value],
  ['recall', 'Share of true labels applied', value], ['settled', 'Examples without review', count],
  ['settled_right', 'Entirely right among these', value], ['missed_share', 'True labels missed in these', value],
];
const NUMBERS = [
  { key: 'name', title: 'Applied unseen', sortable: false },
  { key: 'total', title: 'All', numeric: true, sortable: false, format: (number, { write }) => write(number) },
  { key: 'last', title: 'Last 1,000', numeric: true, sortable: false, format: (number, { write }) => write(number) },
];
const LABELS = [
  { key: 'label', title: 'Label' },
  { key: 'applied', title: 'Applied', numeric: true, format: count },
  { key: 'wrong', title: 'Wrong', numeric: true, format: count },
  { key: 'precision', title: 'Precision', numeric: true, format: value },
];

export function promise(live) {
  const { name, signal } = live;
  const account = h('div', { role: 'status' });
  const bar = h('ml-bars', { heading: 'Wrong labels of those applied', 'name-title': 'Share', 'value-title': 'Share' });
  const numbers = h('ml-table', { caption: 'Numbers of the account' });
  const labels = h('ml-table', { caption: 'Precision by label, the worst first' });
  const curve = h('ml-line', {
    heading: 'How far it could go', 'x-title': 'precision', 'y-title': 'recall', 'x-min': 0.8, 'x-max': 1, 'y-min': 0, 'y-max': 1,
  });
  numbers.set(NUMBERS, [], { key: 'name' });
  labels.set(LABELS, [], { key: 'label', empty: 'No label was applied yet.' });
  const parts = h('div', {}, account, h('div', { class: 'grid' }, h('div', {}, bar, numbers), h('div', {}, curve, labels)));
  let seen = null;

  async function look() {
    if (seen === live.status.position) return;
    const { promise: found, position } = await call('GET', ofModel(name, 'metrics'), { signal });
    seen = position;
    parts.hidden = end.hidden = !found?.gate;
    if (found?.gate) show(found);
  }

  function show({ precision, total, last_1000: last, gate, settled_gate: settled, audited, audit_rate: rate, labels: worst, curve: points }) {
    const share = total.applied ? total.wrong / total.applied : 0;
    replace(account, facts([
      ['Promised', percent(precision)],
      ['Applied', count(total.applied), h('small', {}, ` wrong ${count(total.wrong)} (${percent(share)}); allowed ${percent(1 - precision)}`)],
      ['Labels', STATES[gate.state], h('small', {}, ` ${gate.why}`)],
      settled && ['Examples', STATES[settled.state], h('small', {}, ` ${settled.why}`)],
      ['Audited', count(audited), h('small', {}, rate < 0.05 ? ' audits are too rare to check the promise' : ` ${percent(rate)} of settled examples`)],
    ]));
    bar.setAttribute('max', 2 * (1 - precision));
    bar.set([{ name: 'all', value: share, text: percent(share), mark: 1 - precision },
      { name: 'last 1,000', value: last.applied ? last.wrong / last.applied : 0, text: percent(last.applied ? last.wrong / last.applied : 0), mark: 1 - precision }]);
    numbers.update(ROWS.map(([field, title, write]) => ({ name: title, write, total: total[field], last: last[field] })));
    labels.update(worst);
    curve.dots(points.map((point) => point.precision), { Recall: points.map(({ recall }) => recall) }, points.map(() => 1));
  }

  const said = h('div', { class: 'said', role: 'status' });
  const wanted = h('input', { id: 'promise-precision', type: 'number', min: 0.01, max: 0.999, step: 0.001, required: true, value: live.status.promise?.precision ?? 0.95 });
  const end = h('button', { type: 'button', hidden: true, onclick: () => set(null) }, 'End the promise');
  const form = h('form', { class: 'row', onsubmit: (event) => { event.preventDefault(); set(Number(wanted.value)); } },
    h('label', { for: 'promise-precision' }, 'Precision'), wanted, h('button', { type: 'submit' }, 'Promise'), end);

  async function set(share) {
    const other = promised(live.status.promise, 'parity', 'of', 'agreement');
    const own = share === null ? null : { ...promised(live.status.promise, 'precision', 'settled', 'missed'), precision: share };
    try {
      await call('PUT', ofModel(name, 'promise'), { body: own || other ? { ...other, ...own } : null });
      replace(said, h('p', { class: 'good' }, share === null ? 'Nothing is promised from here on.' : `Promised from here on: ${percent(share)}.`));
      await live.look();
      await look();
    } catch (error) {
      replace(said, shown(error));
    }
  }

  return section('Promise of precision', { signal, help: HELP, class: 'promise' }, async (body) => {
    if (live.status.params.calibrate === false) {
      replace(body, h('p', { class: 'empty' }, 'This model has no probabilities, so it cannot promise a precision: it was created with calibrate=false.'));
      return;
    }
    await look();
    replace(body, said, parts, form);
    setTimeout(() => repeat(LOOK_MS, () => look().catch(() => null), signal), LOOK_MS);
  });
}

function percent(share) {
  return `${Number((100 * share).toFixed(1))} %`;
}
