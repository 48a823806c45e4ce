/** What there is to see of the version of a trained model that is served. */

import '../../parts/bars.js';
import '../../parts/heat.js';
import '../../parts/line.js';
import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { section } from '../../core/section.js';

export function detail(live) {
  let drawn = null;
  const element = section('The version served', { signal: live.signal }, async (body) => {
    const found = await call('GET', ofModel(live.name, 'detail'), { signal: live.signal });
    drawn = found.version;
    const { label_scores: scores, label_decisions: decisions, label_correlation: correlation, view_weights: weights, convergence } = found;
    replace(body, h('div', { class: 'grid' }, course(convergence), weights && views(weights)),
      correlation && heat(correlation), table(scores, decisions));
  });
  live.on(({ version }) => { if (drawn !== null && version !== drawn) element.fill(); });
  return element;
}

function course({ iteration, objective }) {
  const line = h('ml-line', { heading: 'Course of the training', 'x-title': 'iteration', 'y-title': 'objective' });
  line.set(iteration, { objective });
  return line;
}

function views(weights) {
  const bars = h('ml-bars', { heading: 'Weights of views', 'name-title': 'View', 'value-title': 'Weight' });
  bars.set(Object.entries(weights).map(([name, weight]) => ({ name, value: weight })));
  return bars;
}

function heat({ labels, values }) {
  const map = h('ml-heat', { heading: 'Correlation of labels', min: -1, max: 1 });
  map.set(labels, labels, values);
  return h('div', {}, h('p', { class: 'quiet' }, 'Correlations between the weights of the labels, and so between their scores.'), map);
}

function table(scores, decisions) {
  const element = h('ml-table', { caption: scores ? 'Labels, on the rows held out' : 'Decisions by label' });
  const columns = [
    { key: 'label', title: 'Label' },
    ...(scores ? [
      { key: 'f1', title: 'F1', numeric: true, format: value }, { key: 'precision', title: 'Precision', numeric: true, format: value },
      { key: 'recall', title: 'Recall', numeric: true, format: value }, { key: 'support', title: 'Rows', numeric: true, format: count },
    ] : []),
    { key: 'threshold', title: 'Threshold', numeric: true, format: value, help: 'score above which the label is predicted' },
    { key: 'slope', title: 'Slope', numeric: true, format: value, help: 'of the calibration' },
    { key: 'intercept', title: 'Intercept', numeric: true, format: value, help: 'of the calibration' },
  ];
  const rows = Object.entries(decisions).map(([label, { threshold, calibration }]) =>
    ({ label, ...scores?.[label], threshold, slope: calibration?.slope, intercept: calibration?.intercept }));
  element.set(columns, rows, { key: 'label', sort: scores ? 'f1' : 'label', descending: false });
  return element;
}
