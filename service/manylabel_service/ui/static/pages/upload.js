/** Upload a dataset: the file, how to read it, and the report of what was understood, before a job learns it. */

import { call } from '../core/api.js';
import { h, replace, route, shown } from '../core/dom.js';
import { section } from '../core/section.js';
import { declare, formatOf, KINDS, nameFor, namesOf, PARAMETERS, queryOf } from './dataset/reading.js';
import { reportOf } from './dataset/report.js';

const FIRST = ['tags', 'label_columns', 'separator'];

export function title() {
  return 'Upload a dataset';
}

export async function render(parameters, { signal }) {
  const file = h('input', { id: 'file', type: 'file', required: true, onchange: () => { if (file.files[0] && !stored) name.value = nameFor(file.files[0].name); } });
  const name = h('input', { id: 'name', type: 'text', required: true, autocomplete: 'off', spellcheck: 'false' });
  const controls = Object.fromEntries(Object.keys(PARAMETERS).map((each) => [each, h('input', { id: each, type: 'text', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': `${each}-help` })]));
  const texts = () => Object.fromEntries(Object.entries(controls).map(([each, control]) => [each, control.value]));
  const problem = h('div', { 'aria-live': 'polite' });
  const send = h('button', { type: 'submit', class: 'primary' }, 'Read the file');
  const options = h('details', {}, h('summary', {}, 'Kinds of columns, missing values and other options'), Object.keys(PARAMETERS).filter((each) => !FIRST.includes(each)).map(field));
  const result = h('div', {});
  let stored = null; // the dataset that this page has stored; reading again replaces it

  function field(each) {
    return h('div', { class: 'ml-field' }, h('label', { for: each }, each), controls[each], h('span', { class: 'ml-help', id: `${each}-help` }, PARAMETERS[each]));
  }

  async function read(event) {
    event.preventDefault();
    const chosen = file.files[0];
    const format = chosen && formatOf(chosen.name);
    if (!format) {
      replace(problem, h('p', { class: 'bad', role: 'alert' }, chosen ? 'The name of the file must end in .csv, .tsv, .jsonl, .arff, .libsvm or .npz, optionally followed by .gz.' : 'Choose a file.'));
      return;
    }
    send.disabled = true;
    replace(problem, h('p', { class: 'quiet', role: 'status' }, 'The server reads the file …'));
    try {
      await drop();
      replace(result);
      await call('POST', 'v1/datasets', { body: chosen, headers: { 'Content-Type': 'application/octet-stream' }, query: { name: name.value, format, ...queryOf(texts()) }, signal });
      stored = name.value;
      const { report } = await call('GET', `v1/datasets/${encodeURIComponent(stored)}`, { query: { details: true }, signal });
      replace(problem);
      replace(result, understood(report));
    } catch (error) {
      if (!signal.aborted) replace(problem, shown(error));
    } finally {
      send.disabled = false;
    }
  }

  async function drop() {
    if (stored !== null) await call('DELETE', `v1/datasets/${encodeURIComponent(stored)}`, { signal });
    stored = null;
  }

  function understood(report) {
    const declared = (column) => KINDS.find((kind) => namesOf(controls[kind].value).includes(column)) ?? '';
    const change = (column, kind) => {
      const changed = texts();
      declare(changed, column, kind);
      for (const each of KINDS) controls[each].value = changed[each];
      options.open = true;
      replace(problem, h('p', { class: 'note', role: 'status' }, 'Read the file again to see the change.'));
    };
    return section('What was understood', { signal, help: `The dataset ${stored} is stored; nothing has learnt it. Choose other kinds or options and read the file again to replace it.` }, (body) => replace(body,
      reportOf(report, { declared, declare: change }),
      h('p', { class: 'row' }, h('a', { class: 'button primary', href: `#/jobs/new?dataset=${encodeURIComponent(stored)}` }, 'Order a job on it'),
        h('a', { class: 'button', href: route('datasets', stored) }, 'Show the dataset'))));
  }

  return [
    h('form', { novalidate: true, onsubmit: read },
      section('File', { signal, help: 'CSV or TSV, JSON lines, ARFF, libsvm or NPZ; all but NPZ may be gzip. The server reads the whole file and reports what each column is.' }, (body) => replace(body,
        h('div', { class: 'ml-field' }, h('label', { for: 'file' }, 'File'), file),
        h('div', { class: 'ml-field' }, h('label', { for: 'name' }, 'Name of the dataset'), name),
        FIRST.map(field), options)),
      problem, h('p', {}, send)),
    result,
  ];
}
