/** Whether the server that answers is well, and what it is busy with. */

import { address, call } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { bytes, count, duration, short } from '../../core/format.js';
import { facts, repeat, section } from '../../core/section.js';
import { read } from './exposition.js';

const LOOK_MS = 5_000;

/** Return the section. */
export function health(signal) {
  return section('This server', { signal, help: 'Status of the server that handled this request; behind a load balancer it may change.' }, async (body) => {
    let before = null;
    const state = h('div', {});
    const numbers = h('div', {});
    const look = async () => {
      await call('GET', 'readyz', { signal, quiet: true }).then((ready) => replace(state, ok(ready)), (error) => replace(state, shown(error)));
      const now = { at: performance.now(), ...read(await call('GET', 'metrics', { signal })) };
      replace(numbers, draw(now, before));
      if (!before || now.at - before.at > LOOK_MS / 2) before = now;
    };
    replace(body, state, numbers, h('p', { class: 'quiet' }, 'All metrics, for Prometheus: ', h('a', { href: address('metrics') }, '/metrics')));
    await look();
    repeat(LOOK_MS, () => look().catch(() => null), signal);
  });
}

function ok({ failed = [], storage_gone_seconds: gone, archive_error: error }) {
  return [
    h('p', {}, h('span', { class: 'tag good' }, 'ready')),
    failed.length > 0 && h('p', { class: 'bad' }, `These models could not be restored: ${failed.join(', ')}. The server's log says why.`),
    gone !== undefined && h('p', { class: 'bad' }, `The store has been unreachable for ${duration(gone)}. The server still predicts; nothing is learnt.`),
    error !== undefined && h('p', { class: 'bad' }, `Nothing is archived now: ${error}`),
  ];
}

function draw(now, before) {
  const rate = (name) => {
    const seconds = before ? (now.at - before.at) / 1000 : 0;
    if (1000 * seconds < LOOK_MS / 2) return null;
    return Math.max(0, (now.sum(name) - before.sum(name)) / seconds);
  };
  const per = (name) => (rate(name) === null ? '–' : h('span', { title: `${count(now.sum(name))} since it started` }, `${short(rate(name))}/s`));
  return facts([
    ['Requests', per('http_requests_total')],
    ['Predictions', per('manylabel_predictions_total')],
    ['Examples learnt', per('manylabel_updates_total')],
    ['Refused', count(now.sum('manylabel_rejections_total'))],
    ['Being answered', count(now.sum('http_requests_inprogress'))],
    ['Connections', count(now.sum('manylabel_connections'))],
    ['Waiting to be learnt', count(now.sum('manylabel_queue_depth'))],
    ['Models in memory', bytes(now.sum('manylabel_model_bytes'))],
    now.has('manylabel_archive_lag_seconds') && ['Archived', `${duration(now.sum('manylabel_archive_lag_seconds'))} ago`],
    now.has('process_resident_memory_bytes') && ['Memory', bytes(now.sum('process_resident_memory_bytes'))],
    now.has('manylabel_build_info') && ['Release', now.label('manylabel_build_info', 'version')],
  ]);
}
