/** One of several small forms: which one is shown is chosen by radio buttons. */

import { h, replace } from '../../core/dom.js';

let choices = 0;

/**
 * Return a form of which one part counts.
 *
 * @param {string} legend
 * @param {[string, Object][]} parts title of each, and its form as `schemaForm` returns it, with `at`, where its errors are
 * @param {number} first which of them is chosen
 */
export function choice(legend, parts, first = 0) {
  choices += 1;
  const name = `choice-${choices}`;
  const place = h('div', {});
  let chosen = first;
  const draw = () => replace(place, parts[chosen][1].element);
  const radios = parts.map(([title], i) => h('label', {},
    h('input', { type: 'radio', name, value: i, checked: i === first, onchange: () => { chosen = i; draw(); } }), ` ${title}`));
  draw();
  const now = () => parts[chosen][1];
  return {
    element: h('fieldset', { class: 'choice' }, h('legend', { class: 'ml-unseen' }, legend), h('p', { class: 'row' }, radios), place),
    value: () => now().value(),
    check: () => now().check(),
    clear: () => parts.forEach(([, form]) => form.clear()),
    show: (problem) => now().show(problem, now().at ?? ''),
  };
}
