/** Submit a job: what it learns from, the trainer and its parameters, and where the result is published. */

import { call, latestModels } from '../core/api.js';
import { h, replace, route, shown } from '../core/dom.js';
import { section } from '../core/section.js';
import { schemaForm } from '../parts/form.js';
import { dataFields, holdoutFields, searchFields, targetFields } from './new_job/fields.js';

export function title() {
  return 'Order a job';
}

export async function render(parameters, { signal }) {
  const asked = new URLSearchParams(location.hash.split('?')[1] ?? '');
  const wanted = asked.get('model');
  const [{ trainers }, models, datasets] = await Promise.all([
    call('GET', 'v1/trainers', { signal }), latestModels(signal),
    call('GET', 'v1/datasets', { signal }).then((found) => found.datasets.map(({ name }) => name)),
  ]);
  const online = models.filter(({ algorithm }) => algorithm !== 'trained');
  const dataset = datasets.find((name) => name === asked.get('dataset'));
  const from = dataset ? null : online.find(({ name }) => name === wanted) ?? (datasets.length === 0 && online.length === 1 ? online[0] : null);

  const params = h('div', {});
  const hint = h('p', { class: 'quiet' });
  const trainer = h('select', { id: 'trainer', onchange: () => take() }, trainers.map(({ name }) => h('option', { value: name, selected: name === 'm3l' }, name)));
  const target = targetFields(from, models.find(({ name, algorithm }) => name === wanted && algorithm === 'trained')?.name);
  const holdout = holdoutFields(datasets, from);
  const problem = h('div', {});
  const details = h('details', {}, h('summary', {}, 'Parameters; each has a default'), params);
  const dataPlace = h('div', {});
  const searchPlace = h('div', {});
  let forms = {};

  function take() {
    const chosen = trainers.find(({ name }) => name === trainer.value);
    replace(hint, `${chosen.title} Learns from ${chosen.needs}.`);
    forms = {
      params: { ...schemaForm(chosen.params), at: '/params' },
      data: dataFields({ datasets, dataset, online, from, unlabelled: /data\.unlabelled/.test(chosen.needs) }),
      search: searchFields(chosen),
    };
    replace(params, forms.params.element);
    replace(dataPlace, forms.data.element);
    replace(searchPlace, forms.search.element);
    target.suggest(chosen.name);
  }
  take();

  const send = h('button', { type: 'submit', class: 'primary' }, 'Order this job');
  const all = () => [forms.data, forms.params, forms.search, holdout, target];

  async function order(event) {
    event.preventDefault();
    replace(problem);
    all().forEach((form) => form.clear());
    if (!all().map((form) => form.check()).every(Boolean)) {
      details.open ||= details.querySelector('[aria-invalid]') !== null;
      form.querySelector('[aria-invalid]')?.focus();
      return;
    }
    const body = {
      trainer: trainer.value, params: forms.params.value(), data: forms.data.value(), search: forms.search.value(),
      ...holdout.value(), ...target.value(),
    };
    send.disabled = true;
    try {
      const job = await call('POST', 'v1/jobs', { body, headers: { 'Idempotency-Key': newKey() } });
      location.hash = route('jobs', job.id);
    } catch (error) {
      refuse(error);
    } finally {
      send.disabled = false;
    }
  }

  /** Show an error at the fields that it names, and the rest of it above the button. */
  function refuse(error) {
    const named = error.errors ?? [];
    const left = all().reduce((errors, form) => form.show({ errors }, form.at ?? ''), named);
    details.open ||= details.querySelector('[aria-invalid]') !== null;
    if (left.length > 0 || named.length === 0) replace(problem, shown(Object.assign(error, { errors: left })));
    else replace(problem, h('p', { class: 'bad', role: 'alert' }, `${error.detail}: see there.`));
  }

  const form = h('form', { novalidate: true, onsubmit: order },
    section('What it learns from', { signal }, (body) => replace(body, dataPlace)),
    section('Who trains', { signal }, (body) => replace(body,
      h('div', { class: 'row' }, h('label', { for: 'trainer' }, 'Trainer'), trainer), hint, details)),
    section('Search', { signal, help: 'Hyperparameter search by cross-validation on the training rows, before the fit.' }, (body) => replace(body, searchPlace)),
    section('How it is measured', { signal, help: 'Held-out rows measure the result, next to a baseline that ignores the features.' }, (body) => replace(body, holdout.element)),
    section('Result', { signal, help: 'The result is the next version of a trained model, which is created if it does not exist.' }, (body) => replace(body, target.element)),
    problem, h('p', {}, send));
  return form;
}

function newKey() {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(16).padStart(8, '0')).join('');
}

