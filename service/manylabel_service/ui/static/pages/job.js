/** One job: how its training converges, the trials of a search, its result, and its log. */

import { call } from '../core/api.js';
import { h, link, replace, route } from '../core/dom.js';
import { clock, count, duration, value } from '../core/format.js';
import { facts, repeat, section } from '../core/section.js';
import { watch } from '../core/stream.js';
import { cancel, retry, source, stateTag } from './job/actions.js';
import { convergence } from './job/convergence.js';
import { log } from './job/log.js';
import { outcome } from './job/outcome.js';
import { trials } from './job/trials.js';

const TICK_MS = 1_000;
const ENDED = ['succeeded', 'failed', 'cancelled'];

export function title() {
  return 'Job';
}

export async function render({ id }, { signal }) {
  const path = `v1/jobs/${encodeURIComponent(id)}`;
  let job = await call('GET', path, { signal });
  const listeners = [];
  const live = { path, signal, job: () => job, on: (listener) => { listeners.push(listener); listener(job, null); } };
  const tell = (kind, data) => listeners.forEach((listener) => listener(job, kind, data));
  const take = (now) => { job = now; tell('state'); };
  let watching = new AbortController();
  signal.addEventListener('abort', () => watching.abort());

  function follow() {
    watching.abort();
    if (ENDED.includes(job.state)) return;
    watching = new AbortController();
    watch(`${path}/events`, {
      open: () => call('GET', path, { signal }).then((now) => {
        take(now);
        if (ENDED.includes(now.state)) watching.abort();
      }).catch(() => null),
      state: (now) => {
        take(now);
        if (ENDED.includes(now.state)) watching.abort();
      },
      progress: (progress) => { job = { ...job, progress }; tell('progress'); },
      log: (line) => tell('log', line),
    }, watching.signal);
  }

  async function changed() {
    take(await call('GET', path, { signal }));
    follow();
  }

  const top = h('div', {});
  const buttons = h('p', { class: 'row' });
  live.on((now, kind) => { if (kind !== 'log') replace(top, head(now)); });
  let drawn = null;
  live.on(({ state }) => { if (state !== drawn) replace(buttons, actions(job, changed)); drawn = state; }); // else focus would go
  repeat(TICK_MS, () => { if (job.state === 'running') top.querySelector('.since')?.replaceChildren(since(job)); }, signal);
  const page = h('div', {}, h('p', { class: 'crumbs' }, link('#/jobs', 'All jobs')), top, buttons,
    outcome(live), convergence(live), trials(live), log(live), settings(job, signal));
  follow();
  return page;
}

function head(job) {
  const { progress, error } = job;
  return [
    facts([
      ['State', stateTag(job.state)],
      ['Trainer', job.trainer],
      ['Model', job.result ? link(route('models', job.model), job.model) : job.model],
      progress?.trials && ['Trials', `${value(progress.trials.done)} of ${value(progress.trials.total)}`],
      progress && ['Iteration', value(progress.iteration), progress.folds === null ? null
        : h('small', {}, progress.fold === null ? ' on all rows' : ` fold ${value(progress.fold)} of ${value(progress.folds)}`)],
      progress && progress.gap !== null && ['Gap', value(progress.gap)],
      job.started && ['Time', h('span', { class: 'since' }, since(job))],
      job.attempt > 1 && ['Attempt', value(job.attempt)],
    ]),
    error && h('div', { class: 'problem', role: 'alert' }, h('strong', {}, 'The job failed'), h('p', {}, error.detail), h('p', { class: 'quiet' }, h('code', {}, error.code))),
    job.sampled && h('p', { class: 'quiet' }, job.sampled.text),
  ];
}

function actions(job, changed) {
  if (!ENDED.includes(job.state)) return h('button', { type: 'button', class: 'danger', onclick: () => cancel(job, changed) }, 'Cancel this job');
  return job.state === 'succeeded' ? '' : h('button', { type: 'button', onclick: () => retry(job, changed) }, 'Try again');
}

function since({ started, ended }) {
  return duration(Math.max(0, new Date(ended ?? Date.now()) - new Date(started)) / 1000);
}

function settings(job, signal) {
  const text = (given) => (given === null ? 'null' : typeof given === 'string' ? given : JSON.stringify(given));
  return section('Job settings', { signal, help: 'All settings, with the defaults of the trainer.' }, (body) => replace(body, facts([
    ['Learns from', source(job.data)],
    ['Held out', job.holdout === null ? 'the split test, if the data are the split train' : text(job.holdout)],
    ['Promote', { if_better: 'if it is not worse than the served version', always: 'always', never: 'never' }[job.promote]],
    ['Search', job.search === null ? 'none' : h('code', {}, text(job.search))],
    ['Seed', value(job.seed)],
    ...Object.entries(job.params).map(([name, given]) => [name, h('code', {}, text(given))]),
    ['Ordered', clock(job.created)],
    job.started && ['Begun', clock(job.started)],
    job.ended && ['Ended', clock(job.ended)],
    ['Id', h('code', {}, job.id)],
    job.sampled && ['Examples sampled', count(job.sampled.rows)],
  ], 'pairs')));
}
