/** What a model answers, and why. */

import { call, ofModel } from '../../core/api.js';
import { h } from '../../core/dom.js';
import { value as written } from '../../core/format.js';
import '../../parts/bars.js';
import { readable } from '../../parts/record.js';

const EXPLAINED = 6;
const AT_FIRST = 15;
const OPEN = 2;

/**
 * Ask a model about an example, with all that it can say.
 *
 * @returns {Promise<Object>} the answer, with `unable`: why it has no probabilities or no explanations, in the words of the
 *   interface, by name of the field
 */
export async function predict(name, x, { at = null, signal } = {}) {
  const body = { x, probabilities: true, explain: EXPLAINED };
  const unable = {};
  for (;;) {
    try {
      const answer = await call('POST', ofModel(name, 'predict'), { body, query: { at_least: at }, signal });
      return { ...answer, unable };
    } catch (problem) {
      const refused = (problem.errors ?? []).filter(({ pointer }) => pointer === '/probabilities' || pointer === '/explain');
      if (!refused.length || refused.length < problem.errors.length) throw problem;
      for (const { pointer, detail } of refused) {
        delete body[pointer.slice(1)];
        unable[pointer.slice(1)] = detail;
      }
    }
  }
}

/** Names of the labels with what the model gives them, the likeliest first. */
export function ranked(answer) {
  const by = answer.probabilities ?? answer.scores;
  return Object.entries(by).map(([name, value]) => ({ name, value, strong: answer.labels.includes(name) })).sort((a, b) => b.value - a.value);
}

/** Labels with their probabilities as bars, and thresholds where they are known. */
export function answerView(answer, thresholds) {
  const all = ranked(answer).map((each) => ({ ...each, mark: answer.probabilities ? thresholds.get(each.name) ?? null : null }));
  const bars = h('ml-bars', answer.probabilities
    ? { 'name-title': 'Label', 'value-title': 'Probability', max: 1 } : { 'name-title': 'Label', 'value-title': 'Score', signed: true });
  const first = all.filter((each, i) => each.strong || i < AT_FIRST);
  bars.set(first);
  const more = first.length < all.length && h('button', { type: 'button', onclick: () => { bars.set(all); more.remove(); } },
    `Show all ${all.length.toLocaleString('en')} labels`);
  return h('div', {},
    all.length === 0 ? h('p', {}, 'The model has no labels yet. Teach it one below.')
      : h('p', { role: 'status' }, answer.labels.length ? ['Predicted: ', h('strong', {}, answer.labels.join(', ')), '.'] : 'No label is predicted.'),
    answer.unable.probabilities && all.length > 0 ? h('p', { class: 'quiet' }, `The bars are scores: predicted above 0. Probabilities ${answer.unable.probabilities}.`) : null,
    answer.probabilities && all.length > 0 ? h('p', { class: 'quiet' }, 'Bars are probabilities. A label is predicted if its probability is at least its threshold',
      [...thresholds.values()].some((each) => each !== null) ? ' (the upright stroke)' : '', ', which the model chooses for its measure; it need not be a half.') : null,
    answer.auto && all.length > 0 ? h('p', { class: 'quiet' }, answer.auto.length ? ['May be applied unseen: ', h('strong', {}, answer.auto.join(', ')), '. '] : 'No label may be applied unseen. ',
      answer.review ? 'The example needs review.' : 'The example needs no review.') : null,
    bars, more);
}

/** Why each label is predicted: what adds to its score, and what takes away from it. */
export function whyView(answer, x) {
  if (answer.unable.explain) {
    return h('p', {}, `This model cannot say why: explain ${answer.unable.explain}.`);
  }
  const explained = Object.entries(answer.explanations ?? {});
  if (!explained.length) return h('p', {}, 'No label is predicted, so there is nothing to explain: explanations are given for predicted labels.');
  if (explained.every(([, why]) => why.for.length + why.against.length === 0 && !why.title)) {
    return h('p', {}, 'No feature of this example contributes: none has a weight, or all are missing or at their mean. The prediction follows the label frequencies.');
  }
  return h('div', {},
    h('p', { class: 'quiet' }, 'Contribution of each feature to the score of a label: positive (+, green) or negative (−, red). The score is their sum with all others; above 0 the label is predicted.'),
    h('div', { class: 'grid' }, explained.map(([label, why], i) => reasons(label, why, answer.scores[label], x, i < OPEN))));
}

function reasons(label, why, score, x, open) {
  const parts = [...why.for, ...why.against].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const bars = h('ml-bars', { signed: true, 'name-title': 'Feature', 'value-title': 'Adds to the score' });
  bars.set([
    ...parts.map(({ feature, value, contribution }) => ({ name: value === null ? feature : [feature, ' (', written(value), ')'], value: contribution })),
    ...(why.title ? [{ name: 'the title of the label', value: why.title }] : []),
    { name: 'all the rest', value: why.rest },
  ]);
  const hasText = typeof x === 'string' || Object.values(x ?? {}).some((each) => typeof each === 'string');
  return h('details', { open }, h('summary', {}, h('strong', {}, label), ' has the score ', written(score)),
    hasText ? readable(x, new Map(parts.map(({ feature, contribution }) => [String(feature), contribution]))) : null, bars);
}
