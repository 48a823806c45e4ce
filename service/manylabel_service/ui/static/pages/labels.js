/** Labels: suggested changes of labels, and learnt examples with doubtful labels. Nothing changes without a person. */

import { call, ofModel } from '../core/api.js';
import { h, link, replace, route, shown } from '../core/dom.js';
import { count, counted } from '../core/format.js';
import { section } from '../core/section.js';
import { checking } from './labels/doubts.js';
import { ended } from './labels/job.js';
import { Suggestions } from './labels/suggestions.js';

const MOST = 1_000; // doubts of each kind that one search lists

export function title({ name }) {
  return name;
}

export async function render({ name }, { signal }) {
  const status = await call('GET', ofModel(name), { signal });
  if (status.algorithm === 'trained') {
    return h('section', {}, h('h2', {}, 'No labels to change here'),
      h('p', {}, 'A trained model has the labels of its training data. Change those of the online model whose stream it was trained on.'));
  }
  const suggestions = new Suggestions(name, signal);
  const doubts = checking(name, signal);
  const found = h('div', {});
  suggestions.onfound = (health) => replace(found, searched(health));
  return h('div', { class: 'labels' },
    search(name, found, () => { suggestions.fill(); doubts.fill(); }, signal), suggestions.element, doubts);
}

function searched({ job, examined, position }) {
  return h('p', { class: 'quiet' }, job === null
    ? 'No search has ended yet: below are only names that differ in spelling, and labels that are rare.'
    : ['The newest ', link(route('jobs', job), 'search'), ` examined ${counted(examined, 'example')}, up to position ${position}.`]);
}

/** A button that searches, and what the newest search examined. */
function search(name, found, done, signal) {
  return section('Search', { signal, help: 'A search examines what the model has learnt, in a job next to the server. The model does not change, and predictions do not wait.' }, (body) => {
    const state = h('div', { 'aria-live': 'polite' });
    const button = h('button', { type: 'button', class: 'primary', onclick: begin }, 'Search the examples');
    async function begin() {
      button.disabled = true;
      try {
        const job = await call('POST', ofModel(name, 'doubts'), { body: { top: MOST }, signal });
        await ended(job, signal, (now) => replace(state, h('p', { class: 'quiet' }, link(route('jobs', job.id), 'The search'), ` is ${now.state}`,
          now.progress ? `, ${count(now.progress.iteration)} examples examined.` : '.')));
        replace(state);
        done();
      } catch (problem) {
        if (!signal.aborted) replace(state, shown(problem));
      }
      button.disabled = false;
    }
    replace(body, found, h('p', {}, button), state);
  });
}
