/** Rates, from what counters were when the server was asked before. */

import { ago } from '../../core/format.js';

const LOOKS = 5; // number of polls that a rate is averaged over
const PREDICTIONS = /^manylabel_predictions_total\{model="([^"]+)"\} (\S+)$/gm;

export class Rates {
  constructor() {
    this._models = new Map();
    this._predictions = []; // what was predicted in all, by model, at the latest looks
  }

  /** How many models there are. */
  get models() {
    return this._models.size;
  }

  /** Take the counters of `GET /metrics`. */
  notePredictions(text) {
    const counts = new Map([...text.matchAll(PREDICTIONS)].map(([, name, count]) => [name, Number(count)]));
    this._predictions.push({ at: Date.now(), counts });
    if (this._predictions.length > 2) this._predictions.shift();
  }

  /** Take the models as they are listed now. */
  note(models) {
    const now = Date.now();
    const found = new Map();
    for (const model of models) {
      const known = this._models.get(model.name);
      const updates = model.updates ?? model.metrics?.cumulative.examples ?? null;
      const begun = known && updates !== null && known.looks.at(-1).updates > updates; // rolled back, or another one
      const looks = known && !begun ? known.looks : [];
      looks.push({ at: now, updates });
      if (looks.length > LOOKS) looks.shift();
      const moved = known && known.position !== model.position;
      found.set(model.name, { looks, position: model.position, changed: moved ? now : known?.changed ?? null });
    }
    this._models = found;
  }

  /** Examples learnt a second; null while there is nothing to compare with. */
  learnt(name) {
    const looks = this._models.get(name)?.looks ?? [];
    if (looks.length < 2 || looks[0].updates === null) return null;
    const [first, last] = [looks[0], looks.at(-1)];
    return (1000 * (last.updates - first.updates)) / (last.at - first.at);
  }

  /** Examples predicted a second, by the server that was asked. */
  predicted(name) {
    if (this._predictions.length < 2) return null;
    const [first, last] = this._predictions;
    return (1000 * Math.max(0, (last.counts.get(name) ?? 0) - (first.counts.get(name) ?? 0))) / (last.at - first.at);
  }

  /** The sum of one of these rates over all models. */
  inAll(rate) {
    const rates = [...this._models.keys()].map((name) => this[rate](name)).filter((each) => each !== null);
    return rates.length === 0 ? null : rates.reduce((a, b) => a + b, 0);
  }

  /** When a model was seen to change, in words. */
  changed(name) {
    const at = this._models.get(name)?.changed;
    return at == null ? 'earlier' : ago(at);
  }
}
