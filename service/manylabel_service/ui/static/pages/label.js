/** Label: one after another, the stored predictions that need review, or whose labels would teach the model most. */

import { address, call, ofModel } from '../core/api.js';
import { command, h, link, replace, route, shown } from '../core/dom.js';
import { count, value } from '../core/format.js';
import { labelPicker } from '../parts/labels.js';
import '../parts/line.js';
import { readable } from '../parts/record.js';
import { Outbox, UNDO_SECONDS } from './label/outbox.js';

const AT_ONCE = 20;
const LOW = 5;
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

class Labelling {
  constructor(name, example, known, signal, order) {
    Object.assign(this, { name, example, known, signal, order });
    this.queue = [];
    this.done = new Set(); // ids that were labelled or skipped here
    this.counts = { learnt: 0, skipped: 0, waiting: 0 };
    this.current = null;
    this.outbox = new Outbox(name, {
      changed: () => this._showPending(),
      learnt: (item, answer) => this._learnt(answer),
      refused: (item, problem) => this._refused(item, problem),
    }, signal);
    this.place = h('section', { class: 'label-now' });
    this.pending = h('div', { class: 'label-pending' });
    this.facts = h('dl', { class: 'facts', 'aria-label': 'Counts' });
    this.problems = h('div');
    this.keys = h('input', { type: 'checkbox', checked: true });
    this.curve = h('ml-line', {
      heading: 'How well it predicts what is labelled', 'x-title': 'examples learnt', 'y-title': 'micro-F1', 'y-min': 0, 'y-max': 1,
    });
    this.element = h('div', { class: 'label' },
      h('p', {}, order === 'review' ? 'Stored predictions that need review, the most uncertain first. ' : 'Stored predictions that wait for labels, the most uncertain first. ',
        'Select the right labels, then send; all others count as false.'),
      this.place, this.problems, this.pending, this.facts,
      h('section', {}, this.curve, h('p', { class: 'quiet' }, 'Each example is measured by the prediction before it was learnt. The baseline predicts from the label frequencies alone. '
        + 'The most uncertain examples come first, so the curve may fall before it rises.')));
    document.addEventListener('keydown', (event) => this._press(event), { signal });
  }

  async start() {
    await Promise.all([this._fill(), this._past(), this._measure()]);
    this._next();
  }

  // -- the queue -------------------------------------------------------------------------------

  async _fill() {
    const ids = new Set(this.queue.map(({ id }) => id));
    const found = await call('GET', ofModel(this.name, 'predictions'), { query: { order: this.order, limit: AT_ONCE + this.outbox.pending.length }, signal: this.signal });
    const fresh = found.predictions.filter(({ id }) => !this.done.has(id) && id !== this.current?.id);
    this.counts.waiting = found.candidates;
    this.queue = fresh.length ? fresh : this.queue.filter(({ id }) => ids.has(id) && !this.done.has(id));
    this._showCounts();
  }

  async _next() {
    this.current = this.queue.shift() ?? null;
    if (this.queue.length < LOW && this.counts.waiting > this.queue.length) {
      const before = this.current;
      try {
        await this._fill();
      } catch (problem) {
        if (!this.signal.aborted) replace(this.problems, shown(problem));
      }
      if (before === null) this.current = this.queue.shift() ?? null;
    }
    if (!this.signal.aborted) this._show();
  }

  _show(chosen = null) {
    const item = this.current;
    if (!item) {
      this.picker = null;
      replace(this.place, this._empty());
      return;
    }
    const likely = Object.entries(item.probabilities ?? {}).sort((a, b) => b[1] - a[1]).map(([name, probability]) => ({ name, text: value(probability) }));
    this.picker = labelPicker({ legend: 'Its labels', known: this.known, likely, picked: chosen ?? item.labels, keys: true });
    replace(this.place,
      h('h2', { tabindex: -1 }, 'Which labels does this have?'),
      item.record === null || item.record === undefined
        ? h('p', { class: 'empty' }, 'Only the features of this example were stored: predict with keep=record to see the example itself here. Its id is ', h('code', {}, item.id), '.')
        : readable(item.record),
      h('p', { class: 'quiet' }, 'Uncertainty ', value(item.uncertainty), ': at 1 the model may as well say the opposite of some label. Ticked is what it predicts.'),
      item.auto?.length > 0 && h('p', { class: 'quiet' }, 'Sure enough to be applied unseen when it was predicted: ', item.auto.join(', '), '.'),
      h('form', { onsubmit: (event) => { event.preventDefault(); this.send(); } }, this.picker.element,
        h('div', { class: 'row' },
          h('button', { type: 'submit', class: 'primary' }, 'Send ', h('kbd', {}, 'Enter')),
          h('button', { type: 'button', onclick: () => this.skip() }, 'Skip ', h('kbd', {}, 's')),
          h('label', { class: 'end label-keys' }, this.keys, ' Keys'))),
      h('p', { class: 'quiet' }, 'Keys: ', h('kbd', {}, '1'), ' to ', h('kbd', {}, '9'), ' tick a label, ', h('kbd', {}, 'l'), ' another label, ',
        h('kbd', {}, 'Enter'), ' send, ', h('kbd', {}, 's'), ' skip, ', h('kbd', {}, 'u'), ' undo.'));
  }

  _empty() {
    const waits = this.outbox.pending.length ? ' What you have labelled is being sent.' : '';
    const example = `curl -X POST '${address(ofModel(this.name, 'predict'))}?keep=record' -H 'Content-Type: application/json' -d '${JSON.stringify({ x: this.example })}'`;
    return [h('h2', { tabindex: -1 }, 'Nothing waits for labels'),
      h('p', {}, `Predictions made with keep=record wait here until they are labelled or expire.${waits}`),
      command(example),
      h('p', {}, h('button', { type: 'button', onclick: () => this._again() }, 'Look again'))];
  }

  async _again() {
    await this.outbox.sendAll();
    this.done.clear();
    this.counts.waiting = 1;
    await this._next();
  }

  // -- what one does ---------------------------------------------------------------------------

  send() {
    if (!this.current) return;
    const { id } = this.current;
    this.done.add(id);
    const item = this.current;
    const y = this.picker.value();
    for (const label of y) if (!this.known.includes(label)) this.known.push(label);
    this.current = null;
    this.outbox.add({ id, y, item });
    this._turn();
  }

  skip() {
    if (!this.current) return;
    this.done.add(this.current.id);
    this.counts.skipped += 1;
    this.current = null;
    this._showCounts();
    this._turn();
  }

  undo() {
    const taken = this.outbox.undo();
    if (!taken) return;
    if (this.current) this.queue.unshift(this.current);
    this.done.delete(taken.id);
    this.current = taken.item;
    this._show(taken.y);
    this.place.querySelector('h2').focus();
  }

  async _turn() {
    await this._next();
    if (!this.signal.aborted) this.place.querySelector('h2')?.focus();
  }

  _press(event) {
    if (!this.keys.checked || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    const { target } = event;
    if (target.matches?.('input:not([type=checkbox]), textarea, select, summary, a')) return;
    const pressed = event.key;
    if (pressed >= '1' && pressed <= '9') this.picker?.toggle(Number(pressed) - 1);
    else if (pressed === 'Enter' && !target.matches?.('button')) this.send();
    else if (pressed === 's') this.skip();
    else if (pressed === 'u') this.undo();
    else if (pressed === 'l' && this.picker) this.picker.typing();
    else return;
    event.preventDefault();
  }

  // -- result of the labels --------------------------------------------------------------------

  _showPending() {
    const { pending } = this.outbox;
    replace(this.pending, pending.length ? h('section', {}, h('h2', {}, 'About to be sent'),
      h('p', { class: 'quiet' }, `Each is sent ${UNDO_SECONDS} seconds after you chose the labels, or when you leave this page.`),
      h('ol', {}, pending.map(({ y }) => h('li', {}, y.length ? y.join(', ') : 'no label'))),
      h('div', { class: 'row' },
        h('button', { type: 'button', onclick: () => this.undo() }, 'Undo the last ', h('kbd', {}, 'u')),
        h('button', { type: 'button', onclick: () => this.outbox.sendAll() }, 'Send now'))) : null);
    this._showCounts();
  }

  _showCounts() {
    const { learnt, skipped, waiting } = this.counts;
    const fact = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, count(value)));
    replace(this.facts, fact('Labelled here', learnt), fact('Skipped', skipped), fact('Waiting', Math.max(0, waiting - this.outbox.pending.length)));
  }

  _learnt() {
    this.counts.learnt += 1;
    this.counts.waiting = Math.max(0, this.counts.waiting - 1);
    if (this.signal.aborted) return;
    this._showCounts();
    this._measure().catch(() => {}); // the curve has one point less
  }

  _refused({ y }, problem) {
    if (this.signal.aborted) return;
    this.problems.append(h('p', {}, `Not learnt: ${y.join(', ') || 'no label'}.`), shown(problem));
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
