/** Suggested changes of labels: each is applied by one click, and taken back by another. */

import { call, ofModel } from '../../core/api.js';
import { h, link, replace, route, shown } from '../../core/dom.js';
import { section } from '../../core/section.js';
import { comparison } from './comparison.js';
import { ended } from './job.js';
import { KINDS, action, applied, evidence, reason, withoutRequest } from './words.js';

const AT_ONCE = 50; // of each kind

export class Suggestions {
  /** @param {string} name of the model @param {AbortSignal} signal of the page */
  constructor(name, signal) {
    Object.assign(this, { name, signal, changed: [], onfound: () => {} });
    this.done = h('div', { 'aria-live': 'polite' });
    this.list = h('div', {});
    this.element = section('Suggestions', { signal, help: 'Only you can judge what a label means: nothing changes until you click, and each change can be undone.' }, async (body) => {
      if (!this.list.isConnected) replace(body, this.done, this.list);
      await this._look();
    });
  }

  fill() {
    return this.element.fill();
  }

  /** List again: a request has the groups and parents as they were when it was listed, so each change makes others. */
  async _look() {
    const health = await call('GET', ofModel(this.name, 'health'), { query: { top: AT_ONCE }, signal: this.signal });
    this.onfound(health);
    const of = (kind) => health.suggestions.filter((each) => each.kind === kind);
    replace(this.list, health.suggestions.length === 0 && h('p', { class: 'empty' }, 'There is nothing to suggest.'),
      Object.entries(KINDS).filter(([kind]) => of(kind).length).map(([kind, [title, note]]) => [
        h('h3', {}, title), h('p', { class: 'quiet' }, note),
        h('ul', { class: 'suggestions' }, of(kind).map((each) => this._row(each)))]));
  }

  _row(suggestion) {
    const below = h('div', { 'aria-live': 'polite' });
    const buttons = suggestion.request === null ? [] : [
      button(action(suggestion), () => this._apply(suggestion), below, 'primary'),
      button('Dry run', () => this._try(suggestion, below), below)];
    return h('li', {}, h('p', {}, reason(suggestion)), h('p', { class: 'quiet' }, evidence(suggestion)),
      suggestion.request === null && suggestion.kind !== 'vague' && h('p', { class: 'quiet' }, withoutRequest(suggestion)),
      h('div', { class: 'row' }, buttons, button('Dismiss', () => this._dismiss(suggestion), below)), below);
  }

  async _apply(suggestion) {
    const { method, path, body } = suggestion.request;
    const { position } = await call(method, path, { body });
    this._changed(applied(suggestion), position);
    await this._look();
  }

  async _dismiss(suggestion) {
    const { position } = await call('POST', ofModel(this.name, 'health', 'dismiss'), { body: about(suggestion) });
    this._changed([h('strong', {}, suggestion.label), ': dismissed. It is suggested again when its rarer label has twice as many examples.'], position);
    await this._look();
  }

  /** Show what would be otherwise, found by a job that learns the history with the change. */
  async _try(suggestion, below) {
    const job = await call('POST', ofModel(this.name, 'health', 'dry-run'), { body: about(suggestion), signal: this.signal });
    const done = await ended(job, this.signal, (now) => replace(below, h('p', { class: 'quiet' },
      link(route('jobs', job.id), 'A job'), ` learns the history again, without and with the change: it is ${now.state}. The served model does not change.`)));
    replace(below, comparison(done.result));
  }

  /** Note a change at the top, with a button that takes it back. */
  _changed(text, position) {
    const below = h('div');
    const row = h('div', { class: 'change' }, h('div', { class: 'row' }, h('span', {}, text), button('Undo', async () => {
      await call('POST', ofModel(this.name, 'undo'), { body: { position } });
      row.remove();
      await this._look();
    }, below)), below);
    this.done.prepend(row);
  }
}

/** Return a suggestion as the calls about it name it. */
function about({ kind, label, into, parent }) {
  return { kind, label, ...(into ?? parent ? { other: into ?? parent } : {}) };
}

/** Return a button that waits for what it does, and shows an error below. */
function button(text, run, below, style) {
  const made = h('button', { type: 'button', class: style, onclick: async () => {
    made.disabled = true;
    try {
      await run();
    } catch (problem) {
      if (problem.name !== 'AbortError') replace(below, shown(problem));
    }
    made.disabled = false;
  } }, text);
  return made;
}
