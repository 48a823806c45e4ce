/** A dataset: what was understood of its file, and what can be done with it. */

import { call } from '../core/api.js';
import { h, replace } from '../core/dom.js';
import { counted } from '../core/format.js';
import { facts, section } from '../core/section.js';
import { ask } from '../parts/dialog.js';
import { reportOf } from './dataset/report.js';

export function title({ dataset }) {
  return dataset;
}

export async function render({ dataset: name }, { signal }) {
  const path = `v1/datasets/${encodeURIComponent(name)}`;
  const found = await call('GET', path, { query: { details: true }, signal });

  async function remove() {
    const yes = await ask({
      title: `Delete ${name}?`, text: 'Models trained on it stay.', action: 'Delete the dataset', danger: true,
      run: () => call('DELETE', path),
    });
    if (yes) location.hash = '#/jobs';
  }

  return [
    section('Dataset', { signal }, (body) => replace(body,
      facts([
        ['Format', found.format], ['Rows', found.rows.toLocaleString('en')], ['Features', found.features.toLocaleString('en')],
        ['Labels', `${found.labels.toLocaleString('en')}, ${found.cardinality.toFixed(2)} a row`],
        ...Object.entries(found.splits).map(([split, rows]) => [`Split ${split}`, counted(rows, 'row')]),
      ]),
      h('p', { class: 'row' }, h('a', { class: 'button primary', href: `#/jobs/new?dataset=${encodeURIComponent(name)}` }, 'Order a job on it'),
        h('button', { type: 'button', class: 'danger', onclick: remove }, 'Delete')))),
    found.report && section('What was understood of the file', { signal }, (body) => replace(body, reportOf(found.report))),
  ];
}
