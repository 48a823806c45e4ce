/** What a dry run found: metrics without and with a change. */

import { h } from '../../core/dom.js';
import { count, counted, value } from '../../core/format.js';

/** @param {Object} result of the job @returns {HTMLElement} */
export function comparison({ suggestion, examples, changes, conflicts, before, after }) {
  const names = [...new Set([...Object.keys(before.labels), ...Object.keys(after.labels)])];
  const row = (title, from, to) => h('tr', {}, h('th', { scope: 'row' }, title), [from, to].map((number) => h('td', { class: 'number' }, number)));
  const merges = suggestion.kind === 'name' || suggestion.kind === 'merge';
  return h('div', { class: 'comparison' },
    h('p', {}, `${count(changes)} of ${counted(examples, 'example')} would have other labels.`),
    conflicts.length > 0 && h('ul', {}, conflicts.map((conflict) => h('li', { class: 'bad' }, conflict))),
    h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Metrics' }, h('table', {}, h('caption', {}, 'Each example is predicted before it is learnt, without and with the change.'),
      h('thead', {}, h('tr', {}, h('th', {}, 'Metric'), ['Without', 'With'].map((title) => h('th', { class: 'number', scope: 'col' }, title)))),
      h('tbody', {},
        row('micro-F1', value(before.micro_f1), value(after.micro_f1)),
        row('macro-F1', value(before.macro_f1), value(after.macro_f1)),
        merges && row('F1 of both labels, if either name counts', value(before.either_name), value(after.either_name)),
        names.map((name) => row(`F1 of ${name}`, value(before.labels[name]?.f1), value(after.labels[name]?.f1)))))),
    merges && h('p', { class: 'quiet' }, 'One label is easier to predict than two. Compare where either name counts: only a rise there says that the model learns better.'));
}
