/** Examples one after another: each is shown, gets its labels by mouse or keyboard, and is sent after a while. */

import { h, replace, shown } from '../../core/dom.js';
import { count } from '../../core/format.js';
import { Outbox, UNDO_SECONDS } from './outbox.js';

const LOW = 5;

/**
 * Asks a person about examples. A page extends it by:
 *
 * - `sentTitle`: the name of the number of examples whose labels were sent;
 * - `more()`: a promise of the `items` to ask about, each with an `id`, and how many are `waiting` in all;
 * - `question(item)`: what stands above the labels, a heading first; `empty()`: the same without an item;
 * - `picker(item, chosen)`: the labels to choose from, by `labelPicker`; those of `chosen` are ticked, unless it is null;
 * - `request({item, y})`: what is sent, as `{path, body, headers}`.
 */
export class Turns {
  /** @param {AbortSignal} signal of the page */
  constructor(signal) {
    this.signal = signal;
    this.queue = [];
    this.done = new Set(); // ids that were sent or skipped here
    this.counts = { sent: 0, skipped: 0, waiting: 0 };
    this.current = null;
    this.outbox = new Outbox({
      changed: () => this._showPending(),
      learnt: () => this._sent(),
      refused: (entry, problem) => this._refused(entry, problem),
      request: (entry) => this.request(entry),
      leaving: (entries) => this.leaving(entries),
    }, signal);
    this.place = h('section', { class: 'label-now' });
    this.pending = h('div', { class: 'label-pending' });
    this.facts = h('dl', { class: 'facts', 'aria-label': 'Counts' });
    this.problems = h('div');
    this.keys = h('input', { type: 'checkbox', checked: true });
    this.parts = [this.place, this.problems, this.pending, this.facts];
    document.addEventListener('keydown', (event) => this._press(event), { signal });
  }

  /** Return the requests for entries that are sent when the tab is closed. */
  leaving(entries) { return entries.map((entry) => this.request(entry)); }

  /** Return the chosen labels in words. */
  words({ y }) { return y.join(', ') || 'no label'; }

  /** Called when labels were learnt. */
  learnt() {}

  // -- the queue -------------------------------------------------------------------------------

  async start() {
    await this._fill();
    await this._next();
  }

  async _fill() {
    const ids = new Set(this.queue.map(({ id }) => id));
    const { items, waiting } = await this.more();
    const fresh = items.filter(({ id }) => !this.done.has(id) && id !== this.current?.id);
    this.counts.waiting = waiting;
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
      this.chosen = null;
      replace(this.place, this.empty());
      return;
    }
    this.chosen = this.picker(item, chosen);
    replace(this.place,
      this.question(item),
      h('form', { onsubmit: (event) => { event.preventDefault(); this.send(); } }, this.chosen.element,
        h('div', { class: 'row' },
          h('button', { type: 'submit', class: 'primary' }, 'Send ', h('kbd', {}, 'Enter')),
          h('button', { type: 'button', onclick: () => this.skip() }, 'Skip ', h('kbd', {}, 's')),
          h('label', { class: 'end label-keys' }, this.keys, ' Keys'))),
      h('p', { class: 'quiet' }, 'Keys: ', h('kbd', {}, '1'), ' to ', h('kbd', {}, '9'), ' tick a label, ', h('kbd', {}, 'l'), ' another label, ',
        h('kbd', {}, 'Enter'), ' send, ', h('kbd', {}, 's'), ' skip, ', h('kbd', {}, 'u'), ' undo.'));
  }

  /** Look for more examples, including those that were skipped. */
  async again() {
    await this.outbox.sendAll();
    this.done.clear();
    this.counts.waiting = 1;
    await this._next();
  }

  // -- what one does ---------------------------------------------------------------------------

  send() {
    if (!this.current) return;
    const item = this.current;
    this.done.add(item.id);
    this.current = null;
    this.outbox.add({ item, y: this.chosen.value() });
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
    this.done.delete(taken.item.id);
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
    if (pressed >= '1' && pressed <= '9') this.chosen?.toggle(Number(pressed) - 1);
    else if (pressed === 'Enter' && !target.matches?.('button')) this.send();
    else if (pressed === 's') this.skip();
    else if (pressed === 'u') this.undo();
    else if (pressed === 'l' && this.chosen) this.chosen.typing();
    else return;
    event.preventDefault();
  }

  // -- result of the labels --------------------------------------------------------------------

  _showPending() {
    const { pending } = this.outbox;
    replace(this.pending, pending.length ? h('section', {}, h('h2', {}, 'About to be sent'),
      h('p', { class: 'quiet' }, `Each is sent ${UNDO_SECONDS} seconds after you chose the labels, or when you leave this page.`),
      h('ol', {}, pending.map((entry) => h('li', {}, this.words(entry)))),
      h('div', { class: 'row' },
        h('button', { type: 'button', onclick: () => this.undo() }, 'Undo the last ', h('kbd', {}, 'u')),
        h('button', { type: 'button', onclick: () => this.outbox.sendAll() }, 'Send now'))) : null);
    this._showCounts();
  }

  _showCounts() {
    const { sent, skipped, waiting } = this.counts;
    const fact = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, count(value)));
    replace(this.facts, fact(this.sentTitle, sent), fact('Skipped', skipped), fact('Waiting', Math.max(0, waiting - this.outbox.pending.length)));
  }

  _sent() {
    this.counts.sent += 1;
    this.counts.waiting = Math.max(0, this.counts.waiting - 1);
    if (this.signal.aborted) return;
    this._showCounts();
    this.learnt();
  }

  _refused(entry, problem) {
    if (this.signal.aborted) return;
    this.problems.append(h('p', {}, `Not learnt: ${this.words(entry)}.`), shown(problem));
  }
}
