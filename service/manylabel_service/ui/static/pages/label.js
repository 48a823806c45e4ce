/** Label: one after another, the stored predictions that need review, or whose labels would teach the model most. */

import { address, call, ofModel } from '../core/api.js';
import { command, h, link, route } from '../core/dom.js';
import { value } from '../core/format.js';
import { labelPicker } from '../parts/labels.js';
import '../parts/line.js';
import { readable } from '../parts/record.js';
import { Turns } from './label/turns.js';

const AT_ONCE = 20;
const MAX_LABELS = 1000;

export function title({ name }) {
  return name;
}

export async function render({ name }, { signal }) {
  const status = await call('GET', ofModel(name), { signal });
  if (status.algorithm === 'trained') return trained(name);
  const known = await call('GET', ofModel(name, 'labels'), { query: { limit: MAX_LABELS }, signal });
  const example = status.text?.fields?.length ? Object.fromEntries(status.text.fields.map((field) => [field, 'Black cat'])) : { title: 'Black cat', pages: 3 };
  const labelling = new Labelling(name, example, known.labels.filter(({ retired, paused }) => !retired && !paused).map(({ label }) => label), signal, status.promise?.precision ? 'review' : 'uncertainty');
  await labelling.start();
  return labelling.element;
}

function trained(name) {
  return h('section', {}, h('h2', {}, 'Nothing to label here'),
    h('p', {}, 'A trained model does not learn from single examples. Label for the online model whose stream it was trained on, and ',
      link('#/jobs/new', 'order another training'), ' then; or ', link(route('models', name, 'try'), 'try it'), ' and have its answers counted.'));
}

class Labelling extends Turns {
  constructor(name, example, known, signal, order) {
    super(signal);
    Object.assign(this, { name, example, known, order, sentTitle: 'Labelled here' });
    this.curve = h('ml-line', {
      heading: 'How well it predicts what is labelled', 'x-title': 'examples learnt', 'y-title': 'micro-F1', 'y-min': 0, 'y-max': 1,
    });
    this.element = h('div', { class: 'label' },
      h('p', {}, order === 'review' ? 'Stored predictions that need review, the most uncertain first. ' : 'Stored predictions that wait for labels, the most uncertain first. ',
        'Select the right labels, then send; all others count as false.'),
      this.parts,
      h('section', {}, this.curve, h('p', { class: 'quiet' }, 'Each example is measured by the prediction before it was learnt. The baseline predicts from the label frequencies alone. '
        + 'The most uncertain examples come first, so the curve may fall before it rises.')));
  }

  async start() {
    await Promise.all([super.start(), this._past(), this._measure()]);
  }

  async more() {
    const query = { order: this.order, limit: AT_ONCE + this.outbox.pending.length };
    const { predictions, candidates } = await call('GET', ofModel(this.name, 'predictions'), { query, signal: this.signal });
    return { items: predictions, waiting: candidates };
  }

  picker(item, chosen) {
    const likely = Object.entries(item.probabilities ?? {}).sort((a, b) => b[1] - a[1]).map(([name, probability]) => ({ name, text: value(probability) }));
    return labelPicker({ legend: 'Its labels', known: this.known, likely, picked: chosen ?? item.labels, keys: true });
  }

  question(item) {
    return [
      h('h2', { tabindex: -1 }, 'Which labels does this have?'),
      item.record === null || item.record === undefined
        ? h('p', { class: 'empty' }, 'Only the features of this example were stored: predict with keep=record to see the example itself here. Its id is ', h('code', {}, item.id), '.')
        : readable(item.record),
      h('p', { class: 'quiet' }, 'Uncertainty ', value(item.uncertainty), ': at 1 the model may as well say the opposite of some label. Ticked is what it predicts.'),
      item.auto?.length > 0 && h('p', { class: 'quiet' }, 'Sure enough to be applied unseen when it was predicted: ', item.auto.join(', '), '.'),
    ];
  }

  empty() {
    const waits = this.outbox.pending.length ? ' What you have labelled is being sent.' : '';
    const example = `curl -X POST '${address(ofModel(this.name, 'predict'))}?keep=record' -H 'Content-Type: application/json' -d '${JSON.stringify({ x: this.example })}'`;
    return [h('h2', { tabindex: -1 }, 'Nothing waits for labels'),
      h('p', {}, `Predictions made with keep=record wait here until they are labelled or expire.${waits}`),
      command(example),
      h('p', {}, h('button', { type: 'button', onclick: () => this.again() }, 'Look again'))];
  }

  send() {
    for (const label of this.current ? this.chosen.value() : []) if (!this.known.includes(label)) this.known.push(label);
    super.send();
  }

  /** The same labels of the same prediction have the same key, so that a retry is learnt once. */
  request({ item: { id }, y }) {
    return { path: ofModel(this.name, 'labels'), body: { id, y }, headers: { 'Idempotency-Key': `page-${id}` } };
  }

  leaving(entries) {
    return [{ path: ofModel(this.name, 'labels'), body: { examples: entries.map(({ item, y }) => ({ id: item.id, y })) } }];
  }

  /** Draw the curve with one point more; it may have one less. */
  learnt() {
    this._measure().catch(() => {});
  }

  // -- the curve -------------------------------------------------------------------------------

  async _past() {
    try {
      const { examples, window } = await call('GET', ofModel(this.name, 'metrics', 'history'), { signal: this.signal });
      this.curve.set(examples, { 'the latest': window.micro_f1, baseline: window.baseline.micro_f1 });
    } catch (problem) {
      if (problem.status !== 403 && problem.status !== 404) throw problem;
    }
  }

  async _measure() {
    try {
      const { window, cumulative } = await call('GET', ofModel(this.name, 'metrics'), { signal: this.signal });
      this.curve.push(cumulative.examples, { 'the latest': window.micro_f1, baseline: window.baseline.micro_f1 });
    } catch (problem) {
      if (problem.status !== 403) throw problem; // a key that may not read can still label
    }
  }
}
