/** The trials of a search, compared; while it runs, the best one so far. */

import '../../parts/table.js';
import { h, replace } from '../../core/dom.js';
import { duration, value } from '../../core/format.js';
import { section } from '../../core/section.js';

/** Return the section; null for a job that searches nothing. */
export function trials(live) {
  const { search } = live.job();
  if (!search) return null;
  const names = Object.keys(search.params);
  const help = `Each combination of parameters is measured by ${search.measure}, as the mean over ${search.folds} folds.`;
  return section('Trials', { signal: live.signal, help }, (body) => {
    const table = h('ml-table', { caption: 'Combinations tried' });
    const best = h('p', {});
    table.set([
      { key: 'n', title: 'Trial', numeric: true },
      ...names.map((name) => ({ key: `param ${name}`, title: name, numeric: true, format: value })),
      { key: 'score', title: search.measure, numeric: true, format: value },
      { key: 'spread', title: 'Folds from – to', sortable: false, format: (text) => text ?? '–' },
      { key: 'seconds', title: 'Time', numeric: true, format: (seconds) => h('span', { title: `${seconds} s` }, duration(seconds)) },
    ], [], { key: 'n', sort: 'score', descending: search.measure !== 'hamming_loss', empty: 'The trials are listed when the search has ended.' });
    replace(body, best, table);
    live.on(({ result, progress }, kind) => {
      if (kind === 'log') return;
      const found = progress?.best;
      replace(best, found ? ['Best so far: ', h('code', {}, JSON.stringify(found.params)), ' with ', value(found.score)] : '');
      if (result) {
        replace(best, 'Chosen: ', h('code', {}, JSON.stringify(Object.fromEntries(names.map((name) => [name, result.params[name]])))));
        table.update(result.trials.map((trial, i) => ({
          ...trial, n: i + 1, ...Object.fromEntries(names.map((name) => [`param ${name}`, trial.params[name]])),
          spread: `${Math.min(...trial.scores)} – ${Math.max(...trial.scores)}`,
        })));
      }
    });
  });
}
