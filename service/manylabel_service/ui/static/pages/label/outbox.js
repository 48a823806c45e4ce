/** Labels on their way: each waits a little, so that it can be taken back, and is sent then. */

import { address, call, ofModel } from '../../core/api.js';
import { key } from '../../core/session.js';

export const UNDO_SECONDS = 10;
const MOST_PENDING = 5;

/**
 * Sends labels of stored predictions in the order in which they were given.
 * Labels of the last ten seconds, at most five sets of them, can be taken back. Labels that have not been sent when the
 * page is left are sent then: a user who chose labels and goes away meant them.
 */
export class Outbox {
  /**
   * @param {string} name of the model
   * @param {Object} told `changed()`: what waits is another; `learnt(item, answer)`; `refused(item, problem)`
   * @param {AbortSignal} signal of the page
   */
  constructor(name, told, signal) {
    Object.assign(this, { name, told });
    this.pending = [];
    this._sending = Promise.resolve();
    this._timer = 0;
    signal.addEventListener('abort', () => this.sendAll());
    addEventListener('pagehide', () => this._sendLeaving(), { signal });
  }

  /** @param {{id: string, y: string[]}} item */
  add(item) {
    this.pending.push({ ...item, due: Date.now() + UNDO_SECONDS * 1000 });
    while (this.pending.length > MOST_PENDING) this._send(this.pending.shift());
    this._wait();
    this.told.changed();
  }

  /** Take back the one that was given last, if it has not been sent. */
  undo() {
    const item = this.pending.pop() ?? null;
    this._wait();
    this.told.changed();
    return item;
  }

  /** Send whatever waits; resolved when all of it has been answered. */
  sendAll() {
    while (this.pending.length) this._send(this.pending.shift());
    this._wait();
    this.told.changed();
    return this._sending;
  }

  _wait() {
    clearTimeout(this._timer);
    if (!this.pending.length) return;
    this._timer = setTimeout(() => {
      while (this.pending.length && this.pending[0].due <= Date.now()) this._send(this.pending.shift());
      this._wait();
      this.told.changed();
    }, Math.max(0, this.pending[0].due - Date.now()));
  }

  /** One after another, so that they are learnt in their order; not ended with the page. */
  _send(item) {
    this._sending = this._sending.then(async () => {
      try {
        this.told.learnt(item, await call('POST', ofModel(this.name, 'labels'), request(item)));
      } catch (problem) {
        this.told.refused(item, problem);
      }
    });
  }

  /** The tab is closed: nothing waits for an answer any more. */
  _sendLeaving() {
    const items = this.pending.splice(0);
    if (!items.length) return;
    fetch(address(ofModel(this.name, 'labels')), {
      method: 'POST',
      keepalive: true,
      headers: { 'Content-Type': 'application/json', ...(key() ? { Authorization: `Bearer ${key()}` } : {}) },
      body: JSON.stringify({ examples: items.map(({ id, y }) => ({ id, y })) }),
    });
  }
}

/** The same labels of the same prediction have the same key, so that a retry is learnt once. */
function request({ id, y }) {
  return { body: { id, y }, headers: { 'Idempotency-Key': `page-${id}` } };
}
