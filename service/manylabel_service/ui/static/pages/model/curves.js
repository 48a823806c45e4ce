/** The measures of a model over its stream, and of others beside it. */

import '../../parts/line.js';
import { call, latestModels, ofModel, server } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { repeat, section } from '../../core/section.js';

/** The measures there are, and what each says. */
export const MEASURES = {
  micro_f1: ['Micro-F1', 'F1 of all decisions pooled; 1 is without an error'],
  macro_f1: ['Macro-F1', 'mean F1 of the labels predicted now; rare labels count as much as frequent ones'],
  f1: ['F1 of means', 'of the mean precision and the mean recall of examples'],
  precision: ['Precision', 'share of the predicted labels that were right, mean over examples'],
  recall: ['Recall', 'share of the right labels that were predicted, mean over examples'],
  subset_accuracy: ['Subset accuracy', 'share of the examples with every label right'],
  hamming_loss: ['Hamming loss', 'share of wrong decisions; 0 is best'],
  one_error: ['One-error', 'share of the examples whose highest scored label was wrong; 0 is best'],
  ranking_loss: ['Ranking loss', 'share of pairs of labels in the wrong order; 0 is best'],
};
const COMPARE_MS = 3_000;
const CURVES = { Window: (metrics) => metrics.window, 'From the start': (metrics) => metrics.cumulative, Baseline: (metrics) => metrics.window.baseline };

export function curves(live) {
  return section('How well it predicts', { signal: live.signal }, async (body) => {
    const trained = live.trained;
    const x = trained ? 'answers whose labels came' : 'examples learnt';
    const line = h('ml-line', { 'x-title': x, 'y-min': 0, 'y-max': 1 });
    const help = h('p', { class: 'quiet' });
    const measure = h('select', { id: 'measure', onchange: () => begin() },
      Object.entries(MEASURES).map(([key, [text]]) => h('option', { value: key }, text)));
    const other = h('select', { id: 'other', onchange: () => begin() }, h('option', { value: '' }, 'no other model'));
    const problem = h('div', {});
    let alarms = [];
    let turn = new AbortController();

    /** Draw from scratch: the history, as the server keeps it; events add the rest. */
    async function begin() {
      turn.abort();
      turn = new AbortController();
      const signal = AbortSignal.any([turn.signal, live.signal]);
      const [text, what] = MEASURES[measure.value];
      line.setAttribute('y-title', text);
      replace(help, `${text}: ${what}. Each example is predicted before it is learnt. Window: the latest examples. `,
        'Baseline: the same measure of a predictor that looks at no feature.');
      replace(problem);
      line.clear();
      try {
        alarms = await past(line, live.name, measure.value, '', Object.keys(CURVES), signal);
        add(live.status);
        mark();
        if (other.value) await compare(other.value, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 0) server.addEventListener('back', begin, { once: true, signal });
        else replace(problem, shown(error));
      }
    }

    async function compare(name, signal) {
      await past(line, name, measure.value, `${name}: `, ['Window'], signal);
      repeat(COMPARE_MS, async () => {
        const metrics = await call('GET', ofModel(name, 'metrics'), { signal }).catch(() => null);
        if (metrics) push(line, metrics.updates, metrics, measure.value, `${name}: `, ['Window']);
      }, signal);
    }

    function add(status) {
      const at = status.updates ?? status.metrics?.cumulative.examples;
      if (status.metrics) push(line, at, status.metrics, measure.value, '', Object.keys(CURVES));
    }

    function mark() {
      line.marks = alarms.map(({ at, label }) => ({ x: at, text: label === null ? 'drift' : `drift of ${label}` }));
    }

    await begin();
    live.on((status) => add(status));
    live.onEvent((kind, data) => {
      if (kind === 'rollback' || kind === 'dropped' || kind === 'promoted') begin();
      if (kind === 'drift') {
        alarms.push({ at: data.updates, label: data.label });
        mark();
      }
    });
    const none = h('p', { class: 'empty' }, trained
      ? 'No answer of the version served was labelled yet. Predict with keep=true, and tell the labels of the predictions when you know them.'
      : 'Nothing was learnt yet.');
    live.on(({ metrics }) => { line.hidden = !metrics?.cumulative.examples; none.hidden = !line.hidden; });
    replace(body,
      h('div', { class: 'row' }, h('label', { for: 'measure' }, 'Measure'), measure,
        h('label', { for: 'other' }, 'Compare with'), other),
      help, problem, none, line);
    const models = await latestModels(live.signal).catch(() => []);
    other.append(...models.filter(({ name }) => name !== live.name).map(({ name }) => h('option', { value: name }, name)));
  });
}

/** Draw the past of a model, as the server keeps it; return its alarms of drift. */
async function past(line, name, measure, prefix, names, signal) {
  const history = await call('GET', ofModel(name, 'metrics', 'history'), { signal });
  line.set(history.examples, Object.fromEntries(names.map((each) => [prefix + each, CURVES[each](history)[measure]])));
  return (history.drift?.examples ?? []).map((at, i) => ({ at, label: history.drift.labels[i] }));
}

function push(line, at, metrics, measure, prefix, names) {
  const found = names.map((name) => [prefix + name, CURVES[name](metrics)?.[measure]]).filter(([, y]) => y != null);
  if (found.length > 0) line.push(at, Object.fromEntries(found));
}
