/** What a model is now: its status, kept up by its events, for all parts of its page. */

import { call, ofModel } from '../../core/api.js';
import { watch } from '../../core/stream.js';
import { repeat } from '../../core/section.js';

/** What is told as it happens; not each update, of which there may be thousands a second: measures come once a second. */
const KINDS = ['drift', 'label', 'parity', 'rollback', 'promoted', 'not_promoted'];
const LOOK_MS = 5_000;
const RATE_LOOKS = 6;
const DRAW_MS = 250;

export class Live {
  /**
   * @param {string} name of the model.
   * @param {Object} status as `GET /v1/models/{m}` answered it.
   * @param {AbortSignal} signal ends it.
   */
  constructor(name, status, signal) {
    Object.assign(this, { name, status, signal, rate: null });
    this._listeners = new Set();
    this._events = new Set();
    this._looks = [];
    this._timer = 0;
    const handlers = Object.fromEntries([...KINDS, 'dropped'].map((kind) => [kind, (data) => this._happened(kind, data)]));
    const query = ['metrics', ...KINDS].map((kind) => `kind=${kind}`).join('&');
    watch(`${ofModel(name, 'events')}?${query}`, { ...handlers, metrics: (data) => this._measured(data), open: () => this.look() }, signal);
    // Not part of any event: memory, features, the measures of trained models.
    repeat(LOOK_MS, () => this.look(), signal);
  }

  get trained() {
    return this.status.algorithm === 'trained';
  }

  /** Call a function with the status now, and whenever it changes. */
  on(listener) {
    this._listeners.add(listener);
    listener(this.status);
  }

  /** Call a function with the kind and the data of each event. */
  onEvent(listener) {
    this._events.add(listener);
  }

  /** Request the status again. */
  async look() {
    try {
      this._take(await call('GET', ofModel(this.name), { signal: this.signal }));
    } catch (error) {
      if (!this.signal.aborted && error.status !== 0) this._happened('refused', error);
    }
  }

  _measured({ position, updates, ...metrics }) {
    this._take({ ...this.status, position, updates: updates ?? this.status.updates, metrics: { ...this.status.metrics, ...metrics } });
  }

  _take(status) {
    this.status = status;
    const now = Date.now();
    if (this._looks.at(-1)?.updates > status.updates) this._looks = [];
    if (!(now - this._looks.at(-1)?.at < 500)) this._looks.push({ at: now, updates: status.updates });
    if (this._looks.length > RATE_LOOKS) this._looks.shift();
    const [first, last] = [this._looks[0], this._looks.at(-1)];
    this.rate = last.at > first.at ? (1000 * (last.updates - first.updates)) / (last.at - first.at) : null;
    this._timer ||= setTimeout(() => {
      this._timer = 0;
      if (!this.signal.aborted) for (const listener of this._listeners) listener(this.status);
    }, DRAW_MS);
  }

  _happened(kind, data) {
    for (const listener of this._events) listener(kind, data);
    if (kind === 'rollback' || kind === 'promoted') this.look();
  }
}
