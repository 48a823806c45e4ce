/** How often the labels of a model came true, by the probability that they had been given. */

import '../../parts/line.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { facts, repeat, section } from '../../core/section.js';

const LOOK_MS = 4_000;
const HELP = 'On the diagonal, 70 % of the labels given probability 0.7 turn out true; above it, more of them. Probabilities '
  + 'count as they were before an example was learnt. The larger a dot, the more labels were given about that probability.';

export function reliability(live) {
  const line = h('ml-line', {
    heading: 'Share that came true, by probability', 'x-title': 'mean probability', 'y-title': 'share that came true',
    'count-title': 'labels', 'x-min': 0, 'x-max': 1, 'y-min': 0, 'y-max': 1, diagonal: true,
  });
  const errors = h('div', {});
  const none = h('p', { class: 'empty' }, 'Nothing was learnt yet.');
  let seen = null;

  async function look() {
    if (seen === live.status.position) return;
    const found = await call('GET', ofModel(live.name, 'metrics', 'reliability'), { signal: live.signal });
    seen = found.position;
    const there = found.bins.filter((bin) => bin.count > 0);
    const of = (name) => there.map((bin) => bin[name]);
    line.hidden = there.length === 0;
    none.hidden = !line.hidden;
    line.dots(of('mean_probability'), { 'Came true': of('share_true') }, of('count'));
    replace(errors, there.length > 0 && facts([
      ['Expected calibration error', value(found.expected_calibration_error), h('small', {}, ' mean distance from the diagonal')],
      ['Brier score', value(found.brier_score), h('small', {}, ' mean squared error')],
      ['Labels', count(of('count').reduce((sum, each) => sum + each, 0)), h('small', {}, ' with known truth')],
    ]));
  }

  return section('Reliability', { signal: live.signal, help: HELP, class: 'reliability' }, async (body) => {
    if (live.status.params.calibrate === false) {
      replace(body, h('p', { class: 'empty' }, 'This model has no probabilities: it was created with calibrate=false.'));
      return;
    }
    await look();
    replace(body, none, h('div', { class: 'grid' }, line, errors));
    setTimeout(() => repeat(LOOK_MS, () => look().catch(() => null), live.signal), LOOK_MS);
  });
}
