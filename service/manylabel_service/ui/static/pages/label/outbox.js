/** Labels on their way: each waits a little, so that it can be taken back, and is sent then. */

import { address, call } from '../../core/api.js';
import { key } from '../../core/session.js';

export const UNDO_SECONDS = 10;
const MOST_PENDING = 5;

/**
 * Sends labels of examples in the order in which they were given.
 * Labels of the last ten seconds, at most five sets of them, can be taken back. Labels that have not been sent when the
 * page is left are sent then: a user who chose labels and goes away meant them.
 */
export class Outbox {
  /**
   * @param {Object} told `changed()`: what waits is another; `learnt(entry)`; `refused(entry, problem)`; `request(entry)` and
   *   `leaving(entries)` return what is sent, as `{path, body, headers}`; the latter, when the tab is closed, several
   * @param {AbortSignal} signal of the page
   */
  constructor(told, signal) {
    this.told = told;
    this.pending = [];
    this._sending = Promise.resolve();
    this._timer = 0;
    signal.addEventListener('abort', () => this.sendAll());
    addEventListener('pagehide', () => this._sendLeaving(), { signal });
  }

  /** @param {{item: Object, y: string[]}} entry */
  add(entry) {
    this.pending.push({ ...entry, due: Date.now() + UNDO_SECONDS * 1000 });
    while (this.pending.length > MOST_PENDING) this._send(this.pending.shift());
    this._wait();
    this.told.changed();
  }

  /** Take back the one that was given last, if it has not been sent. */
  undo() {
    const entry = this.pending.pop() ?? null;
    this._wait();
    this.told.changed();
    return entry;
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
  _send(entry) {
    this._sending = this._sending.then(async () => {
      try {
        const { path, body, headers } = this.told.request(entry);
        await call('POST', path, { body, headers });
        this.told.learnt(entry);
      } catch (problem) {
        this.told.refused(entry, problem);
      }
    });
  }

  /** The tab is closed: nothing waits for an answer any more. */
  _sendLeaving() {
    const entries = this.pending.splice(0);
    if (!entries.length) return;
    for (const { path, body, headers } of this.told.leaving(entries)) {
      fetch(address(path), {
        method: 'POST',
        keepalive: true,
        headers: { 'Content-Type': 'application/json', ...(key() ? { Authorization: `Bearer ${key()}` } : {}), ...headers },
        body: JSON.stringify(body),
      });
    }
  }
}
