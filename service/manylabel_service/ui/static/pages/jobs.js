/** All jobs: what they train, their progress, and their results; and the datasets. */

import '../parts/table.js';
import { call } from '../core/api.js';
import { command, h, link, replace, route, shown } from '../core/dom.js';
import { clock, duration, value } from '../core/format.js';
import { repeat, section } from '../core/section.js';
import { cancel, retry, source, stateTag } from './job/actions.js';

const LOOK_MS = 2_000;
const STATES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'];

export function title() {
  return 'Jobs';
}

export async function render(parameters, { signal }) {
  const table = h('ml-table', { caption: 'Jobs, the newest first' });
  const said = h('div', { 'aria-live': 'polite' });
  const state = h('select', { id: 'state', onchange: () => look().catch((error) => replace(said, shown(error))) },
    h('option', { value: '' }, 'in any state'), STATES.map((each) => h('option', { value: each }, each)));
  const none = h('div', { class: 'empty', hidden: true },
    h('p', {}, 'No job yet. A job trains a model on a dataset, or on the latest examples of an online model. ',
      link('#/jobs/new', 'Order one'), ', or from a shell:'),
    command('manylabel jobs submit --stream demo --trainer m3l --model demo-m3l'));

  table.set([
    { key: 'created', title: 'Ordered', format: (time, { id }) => link(route('jobs', id), clock(time)) },
    { key: 'state', title: 'State', format: stateTag },
    { key: 'trainer', title: 'Trainer' },
    { key: 'target', title: 'Model', format: ([model, isMade]) => (isMade ? link(route('models', model), model) : model) },
    { key: 'from', title: 'Learns from' },
    { key: 'far', title: 'How far', sortable: false, format: howFar },
    { key: 'actions', title: 'Actions', sortable: false, format: (_, row) => actions(row) },
  ], [], { key: 'id', sort: 'created', descending: true, empty: 'No job is in this state.' });

  async function look() {
    const { jobs } = await call('GET', 'v1/jobs', { query: { limit: 100, state: state.value || null }, signal });
    none.hidden = jobs.length > 0 || state.value !== '';
    table.hidden = !none.hidden;
    table.update(jobs.map((job) => ({ ...job, target: [job.model, job.result !== null], from: source(job.data), far: job, actions: job.state })));
  }

  function actions(job) {
    const done = async (text) => { replace(said, h('p', { class: 'good' }, text)); await look(); };
    const name = `${job.trainer} for ${job.model}`;
    if (job.state === 'queued' || job.state === 'running') {
      return h('button', { type: 'button', class: 'danger', 'aria-label': `Cancel ${name}`, onclick: () => cancel(job, done) }, 'Cancel');
    }
    if (job.state === 'failed' || job.state === 'cancelled') {
      return h('button', { type: 'button', 'aria-label': `Try ${name} again`, onclick: () => retry(job, done) }, 'Try again');
    }
    return '';
  }

  return [section('Training jobs', { signal, help: 'A job fits a model to many examples at once, in as many passes as needed; its result is a version of a trained model.' }, async (body) => {
    await look();
    replace(body,
      h('p', { class: 'row' }, h('a', { class: 'button primary', href: '#/jobs/new' }, 'Order a job'),
        h('label', { for: 'state' }, 'Show those'), state),
      said, none, table);
    repeat(LOOK_MS, () => look().catch(() => null), signal);
  }), section('Datasets', { signal, help: 'Uploaded files. Each shows what was understood of it: kinds of columns, missing cells, labels, and the first rows.' }, async (body) => {
    const { datasets } = await call('GET', 'v1/datasets', { signal });
    const all = h('ml-table', { caption: 'Uploaded datasets' });
    all.set([
      { key: 'name', title: 'Dataset', format: (name) => link(route('datasets', name), name) },
      { key: 'format', title: 'Format' },
      ...['rows', 'features', 'labels'].map((key) => ({ key, title: `${key[0].toUpperCase()}${key.slice(1)}`, numeric: true, format: (n) => n.toLocaleString('en') })),
      { key: 'created', title: 'Uploaded', format: (time) => clock(time) },
    ], datasets, { sort: 'name', empty: 'No dataset yet.' });
    replace(body, h('p', {}, h('a', { class: 'button', href: '#/datasets/new' }, 'Upload a dataset')), all);
  })];
}

function howFar({ state, progress, result, error, started, ended }) {
  if (error) return h('span', { class: 'bad', title: error.detail }, error.code);
  if (result) {
    return [`version ${result.version}`, result.promoted ? ', served' : '', result.converged ? '' : ', not converged',
      h('div', { class: 'quiet' }, duration((new Date(ended) - new Date(started)) / 1000))];
  }
  if (state !== 'running' || !progress) return '–';
  return [
    progress.trials && `trial ${progress.trials.done} of ${progress.trials.total}, `, `iteration ${value(progress.iteration)}`,
    progress.gap !== null && h('div', { class: 'quiet' }, 'gap ', value(progress.gap)),
  ];
}
