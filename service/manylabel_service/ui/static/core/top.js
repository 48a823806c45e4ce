/** Bars at the top of every page: problems and background tasks, on every page. */

import { h } from './dom.js';

/** Where they stand. */
export const bars = h('div', { class: 'bars' });

/**
 * Show a bar until it is taken away.
 *
 * @param {'bad'|'note'|'info'} kind
 * @param {...any} content
 * @returns {() => void} takes it away
 */
export function bar(kind, ...content) {
  const element = h('div', { class: `bar ${kind}`, role: kind === 'bad' ? 'alert' : 'status' }, content);
  bars.append(element);
  return () => element.remove();
}
