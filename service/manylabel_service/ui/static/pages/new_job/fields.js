/** The fields of a job but for the parameters of its trainer, as `POST /v1/jobs` has them. */

import { h } from '../../core/dom.js';
import { schemaForm } from '../../parts/form.js';
import { choice } from './choice.js';

const MOST_EXAMPLES = 10_000_000;
const MEASURES = [
  'micro_f1', 'macro_f1', 'example_f1', 'precision', 'recall', 'subset_accuracy', 'hamming_loss', 'average_precision',
  'ranking_loss', 'one_error', 'coverage', 'macro_auc',
  ...['precision', 'f1', 'ndcg'].flatMap((measure) => [1, 5, 10, 100].map((k) => `${measure}_at_${k}`)),
];
const NAME = { type: 'string', description: 'Lower-case letters, digits, and dots, dashes or underscores between them.' };
const EMPTY = { element: h('div', {}), value: () => null, check: () => true, clear: () => {}, show: ({ errors }) => errors };

/** Return a form whose errors are at a place of the body. */
function formAt(at, schema, options) {
  return { ...schemaForm(schema, options), at };
}

function ofDataset(datasets) {
  return {
    dataset: { type: 'string', enum: datasets, description: 'An uploaded dataset.' },
    split: { anyOf: [{ type: 'string' }, { type: 'null' }], default: null, description: 'One of its splits, or all. Null: train, if it has train and test, else all rows.' },
  };
}

/** Return the fields of `data`. */
export function dataFields({ datasets, dataset, online, from, unlabelled }) {
  const last = Math.max(1, Math.min(from?.updates ?? 10_000, MOST_EXAMPLES));
  const stream = formAt('/data', {
    required: ['stream', 'last'],
    properties: {
      stream: { type: 'string', enum: online.map(({ name }) => name), description: 'The online model to take examples from; it continues to learn.' },
      last: { type: 'integer', minimum: 1, maximum: MOST_EXAMPLES, default: last, description: 'Maximum number of examples, the latest that it learnt.' },
      minimum: { anyOf: [{ type: 'integer', minimum: 1, maximum: MOST_EXAMPLES }, { type: 'null' }], default: null, description: 'Minimum number of examples in the log; with fewer the job fails. Null: last, or all that the model has learnt if that is less.' },
    },
  }, { value: from ? { stream: from.name } : {} });
  const rows = formAt('/data', {
    required: ['dataset'],
    properties: {
      ...ofDataset(datasets),
      ...(unlabelled ? { unlabelled: { type: 'object', description: 'Additional rows, whose labels are ignored.', properties: ofDataset(datasets) } } : {}),
    },
  }, { value: dataset ? { dataset } : {} });
  return choice('Examples', [['the stream of a model', stream], ['a dataset', rows]], from || datasets.length === 0 ? 0 : 1);
}

/** Return the fields of `holdout`. */
export function holdoutFields(datasets, from) {
  const share = formAt('', { required: ['holdout'], properties: {
    holdout: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1, default: 0.2, description: 'Share of the rows that are held out.' },
  } });
  const rows = formAt('/holdout', { required: ['dataset'], properties: ofDataset(datasets) });
  const ofRows = { ...rows, value: () => ({ holdout: rows.value() }) };
  const none = { ...EMPTY, element: h('p', { class: 'quiet' }, 'On the split test, if the data are the split train of a dataset; otherwise not measured.'), value: () => ({}) };
  return choice('Held out', [['a share of the rows', share], ['rows of a dataset', ofRows], ['nothing more', none]], from ? 0 : 2);
}

/** Return the fields of `search` of a trainer. */
export function searchFields(trainer) {
  const shared = {
    folds: { type: 'integer', minimum: 2, maximum: 20, default: 5, description: 'Number of folds of the cross-validation.' },
    measure: { type: 'string', enum: MEASURES, default: 'micro_f1', description: 'Metric that selects the best parameters.' },
  };
  const grid = searched(trainer, shared, 'grid');
  const random = searched(trainer, {
    trials: { type: 'integer', minimum: 1, maximum: 500, default: 20, description: 'Number of combinations drawn.' },
    ...shared,
    ranges: { type: 'object', description: 'Ranges to draw from, such as {"C": {"low": 0.001, "high": 1000, "log": true}}.' },
  }, 'random');
  return choice('Search', [['none', EMPTY], ['every combination', grid], ['combinations at random', random]]);
}

/** Return a search of one kind: its settings, and the values of each parameter that is searched. */
function searched(trainer, properties, kind) {
  const settings = formAt('/search', { required: kind === 'random' ? ['trials'] : [], properties });
  const first = Object.keys(trainer.search);
  const usual = schemaForm(trainer.params, { several: true, value: trainer.search, only: first, legend: 'Values to try, with commas between them' });
  const others = schemaForm(trainer.params, { several: true, without: first });
  const further = Object.entries(trainer.rbf_search).map(([name, values]) => `${name}: ${values.join(', ')}`);
  const hint = h('p', { class: 'quiet' }, `Left as they are, a job with the kernel rbf also tries ${further.join('; ')}.`);
  const values = () => JSON.stringify([usual.value(), others.value()]);
  const asGiven = values();
  return {
    element: h('div', {}, settings.element, usual.element, further.length ? hint : null, h('details', {}, h('summary', {}, 'Values of other parameters'), others.element)),
    value: () => {
      const { ranges, ...given } = settings.value();
      if (!ranges && values() === asGiven) return { kind, ...given }; // the server takes its own
      return { kind, ...given, params: { ...filled(usual.value()), ...filled(others.value()), ...ranges } };
    },
    check: () => [settings, usual, others].map((form) => form.check()).every(Boolean),
    clear: () => [settings, usual, others].forEach((form) => form.clear()),
    show: ({ errors }) => [usual, others].reduce((left, form) => form.show({ errors: left }, '/search/params'), settings.show({ errors }, '/search')),
  };
}

function filled(values) {
  return Object.fromEntries(Object.entries(values).filter(([, each]) => Array.isArray(each) && each.length > 0));
}

/** Return the fields of the result, of a model that has a name already, or, until one is written, a name that `suggest` proposes. */
export function targetFields(from, model) {
  const form = formAt('', {
    required: ['model'],
    properties: {
      model: NAME,
      promote: { type: 'string', enum: ['if_better', 'always', 'never'], default: 'if_better', description: 'When the version is served. if_better: if its fit converged, it was measured, it fits the version served, and it is not worse than that on the same held-out rows.' },
      seed: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1, default: 0, description: 'The same seed and data give the same result.' },
    },
  }, { value: model === undefined ? {} : { model } });
  const name = form.element.querySelector('input');
  let suggested = '';
  return {
    ...form,
    suggest: (trainer) => {
      if (!from || name.value !== suggested) return;
      suggested = `${from.name.slice(0, 63 - trainer.length)}-${trainer}`;
      name.value = suggested;
    },
  };
}
