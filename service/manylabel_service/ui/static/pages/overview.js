/** All models, and whether the server is well. */

import '../parts/table.js';
import { call } from '../core/api.js';
import { command, h, link, replace, route, shown } from '../core/dom.js';
import { ago, bytes, count, short, value } from '../core/format.js';
import { facts, repeat, section } from '../core/section.js';
import { ROOT } from '../core/session.js';
import { Rates } from './overview/rates.js';
import { SAMPLE, sampleButton } from './overview/sample.js';

const LOOK_MS = 3_000;
const MOST_JOBS = 8;
const COUNTERS_MS = 6_000;
const COUNTERS_MS_PER_MODEL = 150; // the answer grows with the models: asked for the less often

export function title() {
  return 'Models';
}

export function render(_, { signal }) {
  const rates = new Rates();
  const top = h('div', {});
  const table = h('ml-table', { caption: 'Models', class: 'models' });
  table.set(COLUMNS, [], { key: 'name', sort: 'name', empty: 'No model yet.' });
  const prefix = h('input', { id: 'prefix', type: 'search', autocomplete: 'off', spellcheck: 'false', oninput: () => look() });
  const search = h('p', { class: 'row', hidden: true }, h('label', { for: 'prefix' }, 'Names that begin with'), prefix,
    h('span', { class: 'quiet' }, 'The list has the models that were used last.'));
  const models = h('section', { 'aria-label': 'All models' },
    h('p', { class: 'quiet' }, 'Micro-F1 of the predictions for the latest examples of each model, before they were learnt; 1 means no error. ',
      'Baseline: the same metric for a predictor that ignores the features.'), search, table);
  const empty = h('div', { hidden: true }, firstSteps());
  const jobs = section('Jobs', { signal }, fillJobs(signal));
  const server = section('Server', { signal }, fillServer(signal));
  let looks = 0;
  const look = async () => {
    try {
      const wanted = prefix.value;
      const { models: found, next } = await call('GET', 'v1/models', { query: { sort: 'used', prefix: wanted }, signal });
      if (wanted !== prefix.value) return;
      rates.note(found);
      const rows = found.map((model) => row(model, rates));
      table.update(rows);
      search.hidden = !next && wanted === '';
      empty.hidden = found.length > 0 || wanted !== '';
      models.hidden = found.length === 0 && wanted === '';
      replace(top, summary(found, next, rates));
    } catch (error) {
      if (signal.aborted || error.status === 0) return;
      replace(top, shown(error));
      models.hidden = true;
    }
    if (looks > 0) await Promise.all([jobs.fill(), server.fill()]);
    looks += 1;
  };
  models.hidden = true;
  repeat(LOOK_MS, look, signal);
  repeat(() => Math.max(COUNTERS_MS, COUNTERS_MS_PER_MODEL * rates.models), async () => {
    rates.notePredictions(await call('GET', 'metrics', { signal, quiet: true }).catch(() => ''));
  }, signal);
  return h('div', {}, top, empty, models,
    h('p', { class: 'row' }, sampleButton(), h('span', { class: 'quiet' }, `The sample goes to a separate model, ${SAMPLE}.`)),
    h('div', { class: 'grid' }, jobs, server));
}

const COLUMNS = [
  { key: 'name', title: 'Model', format: (name) => link(route('models', name), name) },
  { key: 'kind', title: 'Kind' },
  { key: 'f1', title: 'Micro-F1', numeric: true, format: (f1, row) => measured(f1, row), help: 'of the latest examples' },
  { key: 'updates', title: 'Examples', numeric: true, format: count, help: 'learnt so far; for a trained model: predictions with delayed labels' },
  { key: 'rate', title: 'Learnt/s', numeric: true, format: short, help: 'examples a second' },
  { key: 'predictions', title: 'Predicted/s', numeric: true, format: short, help: 'examples per second, of the server that handled the request' },
  { key: 'labels', title: 'Labels', numeric: true, format: count },
  { key: 'drift', title: 'Drift', numeric: true, format: alarms, help: 'alarms of the detector of all labels' },
  { key: 'bytes', title: 'Memory', numeric: true, format: (size) => h('span', { title: `${value(size)} bytes` }, bytes(size)) },
  { key: 'changed', title: 'Last change', help: 'earlier: before this page was opened' },
];

function row(model, rates) {
  const measures = model.metrics?.window;
  return {
    name: model.name,
    kind: kind(model),
    f1: measures?.micro_f1 ?? model.measures?.micro_f1,
    held_out: measures?.micro_f1 == null && model.measures != null,
    baseline: measures?.baseline.micro_f1 ?? model.baseline?.micro_f1,
    updates: model.updates ?? model.metrics?.cumulative.examples,
    rate: rates.learnt(model.name),
    predictions: rates.predicted(model.name),
    labels: model.labels,
    drift: model.metrics?.drift?.alarms,
    bytes: model.bytes,
    changed: model.loaded ? rates.changed(model.name) : 'not in memory',
  };
}

function kind(model) {
  if (model.algorithm !== 'trained') return model.algorithm;
  if (!model.loaded) return 'trained';
  return model.version === null ? 'trained, none served' : `${model.trainer} version ${model.version}`;
}

/** Return the measure of a model above that of its baseline. */
function measured(f1, { held_out: heldOut, baseline }) {
  return [value(f1), heldOut && h('span', { title: 'on the rows held out from its training' }, ' held out'),
    baseline != null && h('div', { class: 'quiet' }, 'baseline ', value(baseline))];
}

function alarms(n) {
  if (n == null) return h('span', { class: 'quiet', title: 'not watched' }, '–');
  return n === 0 ? '0' : h('span', { class: 'tag warn', title: 'see the model for when' }, `${count(n)} ▲`);
}

function summary(models, more, rates) {
  const loaded = models.filter((model) => model.loaded).length;
  return facts([
    ['Models', count(models.length), more && h('small', {}, ' listed'), loaded < models.length && h('small', {}, ` ${count(loaded)} in memory`)],
    ['Examples learnt/s', short(rates.inAll('learnt'))],
    ['Examples predicted/s', short(rates.inAll('predicted'))],
  ]);
}

function firstSteps() {
  const url = String(ROOT).replace(/\/$/, '');
  return section('Nothing has been learnt yet', {}, (body) => replace(body,
    h('p', {}, 'A model learns from its first example. Create one and send it an example: its features as ', h('code', {}, 'x'),
      ', its labels as ', h('code', {}, 'y'), '.'),
    command(`curl -X POST ${url}/v1/models -H 'Content-Type: application/json' -d '{"name": "tags", "algorithm": "falt"}'`),
    command(`curl -X POST ${url}/v1/models/tags/update -H 'Content-Type: application/json' -d '{"x": "my invoice is wrong", "y": ["billing"]}'`),
    h('p', {}, 'Or stream a sample: made-up help desk messages, whose topics the model learns within seconds.')));
}

/** Return what fills the section of jobs; its table stays, and with it the focus. */
function fillJobs(signal) {
  const table = h('ml-table', { caption: 'The latest jobs' });
  table.set([
    { key: 'what', title: 'Job', format: (text, { id }) => link(route('jobs', id), text) },
    { key: 'state', title: 'State', format: (state) => h('span', { class: `tag ${STATES[state] ?? ''}` }, state) },
    { key: 'when', title: 'Ordered' },
  ], [], { key: 'id', empty: 'No training job yet.' });
  return async (body) => {
    const { jobs } = await call('GET', 'v1/jobs', { query: { limit: MOST_JOBS }, signal });
    table.update(jobs.map((job) => ({ id: job.id, what: `${job.trainer} for ${job.model}`, state: job.state, when: ago(job.created) })));
    if (!body.contains(table)) {
      replace(body, table, h('p', { class: 'row' }, link('#/jobs/new', 'Order a training'), link('#/jobs', 'All jobs')));
    }
  };
}

const STATES = { succeeded: 'good', failed: 'bad', running: 'warn' };

/** Return what fills the section about the server's health. */
function fillServer(signal) {
  const state = h('div', {});
  const table = h('ml-table', { caption: 'Processes that share the store' });
  table.set([
    { key: 'host', title: 'Host', format: (host, row) => [host, row.this && [' ', h('span', { class: 'tag' }, 'this one')]] },
    { key: 'role', title: 'Role' },
    { key: 'state', title: 'State', format: (text) => h('span', { class: `tag ${text === 'ready' ? 'good' : 'warn'}` }, text) },
    { key: 'models', title: 'Models', help: 'in its memory', numeric: true, format: count },
    { key: 'release', title: 'Release' },
    { key: 'started', title: 'Started' },
  ], [], { key: 'id' });
  return async (body) => {
    const [ready, { replicas }] = await Promise.all([
      call('GET', 'readyz', { signal, quiet: true }).catch((error) => error), call('GET', 'v1/replicas', { signal }),
    ]);
    const gone = ready.storage_gone_seconds;
    replace(state, facts([
      ['Server', ready.ready ? h('span', { class: 'good' }, 'ready') : h('span', { class: 'bad' }, ready.title ?? 'not ready')],
      ['Store', gone === undefined ? h('span', { class: 'good' }, 'reached') : h('span', { class: 'bad' }, `out of reach for ${short(gone)} s`)],
    ]), ready.failed?.length > 0 && h('p', { class: 'problem' }, `Models that cannot be restored, or are damaged: ${ready.failed.join(', ')}`));
    table.update(replicas.map((each) => ({
      ...each, state: stateOf(each), models: Object.keys(each.models).length, started: ago(each.started_at),
    })));
    if (!body.contains(table)) replace(body, state, table, h('p', {}, link('#/operations', 'Operations')));
  };
}

function stateOf({ ready, withheld }) {
  const names = Object.keys(withheld);
  if (names.length > 0) return `withholds ${names.join(', ')}`;
  return ready ? 'ready' : 'not ready';
}
