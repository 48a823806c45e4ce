/** The fields of a key, as `POST /v1/keys` and `PATCH /v1/keys/{id}` have them. */

import { h } from '../../core/dom.js';
import { schemaForm } from '../../parts/form.js';

const SCOPES = {
  predict: 'predictions', learn: 'updates, labels, streams', read: 'look at everything', train: 'jobs, datasets, promote',
  export: 'take snapshots along', admin: 'all of it, and keys',
};
const RATE = { anyOf: [{ type: 'number', exclusiveMinimum: 0 }, { type: 'null' }], default: null };
const CHANGEABLE = {
  expires_at: { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, description: 'A time such as 2027-01-31T12:00:00Z; empty: the key does not expire.' },
  note: { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, description: 'For people.' },
  requests_per_second: { ...RATE, description: 'Per server process. Empty: no limit, here and below.' },
  examples_per_second: RATE,
  max_concurrent_requests: { anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }], default: null },
};
const RATES = ['requests_per_second', 'examples_per_second', 'max_concurrent_requests'];

const NEW_KEY = {
  required: ['name'],
  properties: {
    name: { type: 'string', description: 'Owner or purpose of the key.' },
    models: { type: 'array', items: { type: 'string' }, default: ['*'], description: 'Names of models, datasets and targets of jobs, or prefixes that end in *; * means all.' },
    ...CHANGEABLE,
  },
};
const CHANGES = { required: ['name'], properties: { name: NEW_KEY.properties.name, ...CHANGEABLE } };

/** Return the form of a new key. */
export function newKeyForm() {
  const rest = schemaForm(NEW_KEY);
  const error = h('span', { class: 'ml-error', id: 'scopes-error' });
  const boxes = Object.entries(SCOPES).map(([scope, what]) => {
    const box = h('input', { type: 'checkbox', id: `scope-${scope}`, value: scope, 'aria-describedby': `about-${scope}`, onchange: () => say('') });
    return { box, element: h('span', {}, box, ' ', h('label', { for: box.id }, scope), h('span', { class: 'ml-help', id: `about-${scope}` }, what)) };
  });
  const scopes = h('fieldset', { class: 'choice', 'aria-describedby': 'scopes-error' }, h('legend', {}, h('strong', {}, 'scopes (required)')), error,
    h('p', { class: 'row' }, boxes.map(({ element }) => element)));
  const chosen = () => boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);
  const say = (text) => { error.textContent = text; };
  return {
    element: h('div', {}, scopes, rest.element),
    value: () => ({ ...rest.value(), scopes: chosen() }),
    check: () => {
      say(chosen().length ? '' : 'Choose at least one');
      return rest.check() && chosen().length > 0;
    },
    clear: () => { say(''); rest.clear(); },
    show: (problem) => rest.show(problem),
  };
}

/** Return the form of what can be changed of a key, as it is. */
export function changeForm({ name, note, expires_at: expiry, rates }) {
  return schemaForm(CHANGES, { value: { name, note, expires_at: expiry, ...rates } });
}

/** Return what the form has as the interface takes it. */
export function forServer(value) {
  const { requests_per_second: _, examples_per_second: __, max_concurrent_requests: ___, ...rest } = value;
  const rates = Object.fromEntries(RATES.filter((name) => value[name] !== undefined).map((name) => [name, value[name]]));
  return Object.keys(rates).length > 0 ? { ...rest, rates } : rest;
}
