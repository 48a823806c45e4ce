/** One model: how well it predicts, label by label, what happened to it, and what it is. */

import { call, ofModel } from '../core/api.js';
import { h, replace } from '../core/dom.js';
import { bytes, count, short, value } from '../core/format.js';
import { facts } from '../core/section.js';
import { curves } from './model/curves.js';
import { detail } from './model/detail.js';
import { fields } from './model/fields.js';
import { feed } from './model/feed.js';
import { followers } from './model/followers.js';
import { labels } from './model/labels.js';
import { Live } from './model/live.js';
import { parity } from './model/parity.js';
import { promise } from './model/promise.js';
import { reliability } from './model/reliability.js';
import { seen } from './model/seen.js';
import { settings } from './model/settings.js';
import { snapshots } from './model/snapshots.js';
import { versions } from './model/versions.js';

const SHOWN_ALIKE = 5; // groups of alike labels
const MANY_UNSEEN = 0.25; // share of unseen words from which on parts of words are advised

export function title({ name }) {
  return name;
}

export async function render({ name }, { signal }) {
  const status = await call('GET', ofModel(name), { signal });
  const live = new Live(name, status, signal);
  const trained = status.algorithm === 'trained';
  const top = h('div', {});
  live.on((now) => replace(top, summary(now, live), advice(now)));
  return h('div', {},
    top,
    !trained && h('p', {}, h('a', { class: 'button', href: `#/jobs/new?model=${encodeURIComponent(name)}` }, 'Train another model on this stream'),
      h('span', { class: 'quiet' }, ' Batch trainers such as M3L fit its latest examples in many passes; then compare the two models.')),
    trained && versions(live),
    trained && detail(live),
    curves(live),
    !trained && followers(live),
    labels(live),
    seen(live),
    !trained && fields(live),
    !trained && reliability(live),
    !trained && promise(live),
    !trained && parity(live),
    h('div', { class: 'grid' }, feed(live), trained ? null : snapshots(live)),
    settings(live));
}

/** Advise parts of words if many words of new texts were never seen, and to merge labels that are alike. */
function advice({ name, unseen_words: share, alike_labels: alike = [] }) {
  return [
    share >= MANY_UNSEEN && h('p', { class: 'advice' }, `${Math.round(100 * share)} % of the words in new texts were never seen before. `
      + 'A model that reads parts of words may be better: create one with "text": {"chars": 5} and compare the two.'),
    alike.length > 0 && h('p', { class: 'advice' }, 'Labels differ only in case, spaces or Unicode form: ',
      alike.slice(0, SHOWN_ALIKE).map((group, i) => [i > 0 && '; ', group.map((label) => JSON.stringify(label)).join(', ')]),
      alike.length > SHOWN_ALIKE && ' and others', '. To merge them: ', h('code', {}, `manylabel models merge-label ${name} --alike`)),
  ];
}

function summary(status, live) {
  const { window, cumulative, drift } = status.metrics ?? {};
  const measured = window?.examples > 0;
  return facts([
    measured && ['Micro-F1', value(window.micro_f1), h('small', {}, ` latest ${count(window.examples)}`)],
    measured && ['Baseline', value(window.baseline.micro_f1), h('small', {}, ' without features')],
    measured && ['P@1', value(window.precision_at_1), h('small', {}, ' the best label is true')],
    measured && ['NDCG@10', value(window.ndcg_at_10), h('small', {}, ' order of the ten best')],
    measured && ['From the start', value(cumulative.micro_f1)],
    status.measures && ['Held out', value(status.measures.micro_f1), h('small', {}, ' baseline ', value(status.baseline?.micro_f1))],
    status.updates !== undefined && ['Examples', count(status.updates), h('small', {}, live.rate === null ? '' : ` ${short(live.rate)}/s`)],
    ['Labels', count(status.labels)],
    ['Features', count(status.features)],
    ['Memory', h('span', { title: `${status.bytes} bytes` }, bytes(status.bytes))],
    drift && ['Drift', drift.alarms === 0 ? 'no alarm' : `${count(drift.alarms)} alarm${drift.alarms === 1 ? '' : 's'}`,
      drift.last !== null && h('small', {}, ` last at ${count(drift.last)}`)],
    status.algorithm === 'trained' && ['Version', value(status.version), h('small', {}, ` of ${count(status.versions)}`)],
  ]);
}
