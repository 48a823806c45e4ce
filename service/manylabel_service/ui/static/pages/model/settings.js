/** What a model is: every setting as it was resolved, and its limits. */

import { h, replace } from '../../core/dom.js';
import { count, counted } from '../../core/format.js';
import { facts, section } from '../../core/section.js';

const ELSEWHERE = ['metrics', 'measures', 'baseline', 'position', 'updates', 'labels', 'features', 'bytes', 'ignored', 'loaded', 'limits', 'name'];

export function settings(live) {
  const { status, signal } = live;
  return h('div', { class: 'grid' },
    section('Settings', { signal, help: 'Settings as resolved when the model was created; they never change.' }, (body) => {
      const own = Object.entries(status).filter(([name]) => !ELSEWHERE.includes(name));
      replace(body, facts(own.flatMap(([name, value]) => entries(name, value)), 'pairs'));
    }),
    status.algorithm === 'trained' ? null : section('Limits', { signal, help: 'Limits on the numbers of features and labels, and the policy for further ones.' }, (body) => {
      live.on((now) => replace(body, facts(['features', 'labels'].map((kind) => limit(kind, now)), 'pairs'),
        now.ignored.features + now.ignored.labels > 0
          && h('p', { class: 'warn' }, `Ignored so far: ${counted(now.ignored.features, 'feature')}, ${counted(now.ignored.labels, 'label')}.`)));
    }));
}

/** Return a value as terms; the parts of an object one by one. */
function entries(name, value) {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([key, each]) => entries(`${name}.${key}`, each));
  }
  return [[name, h('code', {}, JSON.stringify(value))]];
}

function limit(kind, { limits, [kind]: number }) {
  const own = limits?.[kind];
  return [kind, own ? `${count(number)} of ${count(own.most)}; those beyond: ${own.policy}` : `${count(number)}; as many as the server allows`];
}
