/** Suggestions in plain words. Names of labels are texts of the clients of the model: they are never markup. */

import { h } from '../../core/dom.js';
import { count, counted, value } from '../../core/format.js';

/** Titles of the kinds, in the order of the page, and what a person should know before a click. */
export const KINDS = {
  name: ['Nearly equal names', 'Most of these are two names for one thing.'],
  merge: ['Labels that mean the same?', 'Read examples of both first: most labels that look alike to a model are near ones, such as sun and sunset, and not the same thing.'],
  parent: ['Labels under another', 'Most of these are right. Other labels only go together, such as runway and plane.'],
  pause: ['Labels that are no longer used', 'Such labels often return. A paused label is not learnt or predicted until it is resumed.'],
  vague: ['Labels that the model cannot tell', 'Say better when the label applies, or do without it. There is nothing to apply here.'],
};

const named = (name) => h('strong', {}, name);

/** Return what a suggestion says, as a sentence. */
export function reason({ why, label, into, parent, evidence: { examples, together, means, last_seen: [last] } }) {
  switch (why) {
    case 'spelling': return [named(label), ' and ', named(into), ' differ only in spelling.'];
    case 'plural': return [named(label), ' and ', named(into), ' are one word in the singular and in the plural.'];
    case 'slip': return [named(label), ' and ', named(into), ' differ in one letter, and the model hardly tells them apart.'];
    case 'together': return [named(label), ' and ', named(into), ' are nearly always given together.'];
    case 'alike': return [named(label), ' and ', named(into), ' are hardly ever given together, and the model cannot tell them apart.'];
    case 'implied': return [`${count(together)} of ${counted(examples[0], 'example')} with `, named(label), ' also have ', named(parent), '.'];
    case 'unused': return [named(label), ` was last given at example ${count(last)}. It has not been used for three times its longest gap before.`];
    case 'rare': return [named(label), ` was given to ${counted(examples[0], 'example')}, last at example ${count(last)}.`];
    default: return ['The probability of ', named(label), ' is hardly higher where it was given',
      means && [': ', value(means[0]), ' on average, and ', value(means[1]), ' elsewhere'], '.'];
  }
}

/** Return the numbers behind a suggestion. */
export function evidence({ kind, label, into, parent, evidence: { examples, together, changes, alike } }) {
  const other = into ?? parent;
  return [
    `${counted(examples[0], 'example')} with `, named(label),
    other && [`, ${count(examples[1])} with `, named(other), `, ${count(together)} with both`],
    alike !== null && [', likeness ', value(alike), ' of at most 1'], '.',
    kind !== 'vague' && ` ${counted(changes, 'learnt example')} would have other labels.`,
  ];
}

/** Return what the button that applies a suggestion says. */
export function action({ kind, into, parent }) {
  if (kind === 'pause') return 'Pause';
  return kind === 'parent' ? `Put under ${parent}` : `Merge into ${into}`;
}

/** Return what was done when a suggestion was applied. */
export function applied({ kind, label, into, parent }) {
  if (kind === 'pause') return [named(label), ' is paused.'];
  return kind === 'parent' ? [named(label), ' is now under ', named(parent), '.'] : [named(label), ' is now part of ', named(into), '.'];
}

/** Return why a suggestion has no request. */
export function withoutRequest({ kind }) {
  return kind === 'parent' ? 'The groups and parents of this model are too large to change here.'
    : 'A group or a parent names this label: change the groups first.';
}
