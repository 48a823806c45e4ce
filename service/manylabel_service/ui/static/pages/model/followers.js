/** The models that learn from the same log: a leader and its followers, side by side. */

import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { count, value } from '../../core/format.js';
import { repeat, section } from '../../core/section.js';

const EVERY_MS = 3_000;
const COLUMNS = [
  { key: 'name', title: 'Model', sortable: false, format: (name) => h('a', { href: `#/models/${encodeURIComponent(name)}` }, name) },
  { key: 'learner', title: 'Learner', sortable: false },
  { key: 'examples', title: 'Examples', numeric: true, sortable: false, format: count, help: 'number of examples measured' },
  { key: 'latest', title: 'Latest micro-F1', numeric: true, sortable: false, format: value, help: 'micro-F1 of the latest examples' },
  { key: 'micro', title: 'Micro-F1', numeric: true, sortable: false, format: value, help: 'micro-F1 of all examples' },
  { key: 'macro', title: 'Macro-F1', numeric: true, sortable: false, format: value, help: 'macro-F1 of all examples' },
];
const HELP = 'A follower learns from the log of another model with its own learner. Each example is predicted before it is learnt.';

/** Return the section, which is shown only if the model is followed, or follows another. */
export function followers(live) {
  const table = h('ml-table', { caption: 'Metrics of the models that learn from one log' });
  table.set(COLUMNS, [], { key: 'name', empty: 'No model follows this one.' });
  const element = section('Followers', { signal: live.signal, help: HELP }, (body) => replace(body, table));
  element.hidden = true;
  const leader = live.status.follow?.model ?? live.name;
  const ask = (path) => call('GET', path, { signal: live.signal });
  repeat(EVERY_MS, async () => {
    const { models } = await ask(`v1/models?leader=${encodeURIComponent(leader)}`).catch(() => ({ models: [] }));
    element.hidden = models.length < 2;
    if (element.hidden) return;
    // A follower that is not in memory catches up when its metrics are requested.
    const measured = await Promise.all(models.map(({ name, metrics }) => metrics ?? ask(ofModel(name, 'metrics')).catch(() => null)));
    table.update(rows(leader, models, measured));
  }, live.signal);
  return element;
}

/** Return a row for each model, the leader first; of one that is catching up, without metrics. */
export function rows(leader, models, measured) {
  const found = models.map(({ name, algorithm }, i) => {
    const metrics = measured[i];
    const numbers = metrics && {
      examples: metrics.cumulative.examples,
      latest: metrics.window.micro_f1,
      micro: metrics.cumulative.micro_f1,
      macro: metrics.cumulative.macro_f1,
    };
    return { name, learner: name === leader ? `${algorithm}, the leader` : algorithm, ...numbers };
  });
  return found.sort((a, b) => (b.name === leader) - (a.name === leader));
}
