/** A part of a page that asks for its own data, and shows what went wrong where it went wrong. */

import { server } from './api.js';
import { h, replace, shown } from './dom.js';

let sections = 0;

/**
 * Return a section that fills itself.
 *
 * @param {string} title
 * @param {Object} options `help`: a sentence for who sees it first; `signal`: ends what it does; `attributes` of the element.
 * @param {(body: HTMLElement) => any} fill puts elements into the body; may be asynchronous, and may throw.
 * @returns {HTMLElement} with a method `fill()` that does it again.
 */
export function section(title, { help, signal, ...attributes } = {}, fill) {
  sections += 1;
  const id = `section-${sections}`;
  const body = h('div', {});
  const element = h('section', { 'aria-labelledby': id, ...attributes },
    h('h2', { id }, title), help && h('p', { class: 'quiet' }, help), body);
  element.fill = async () => {
    try {
      await fill(body);
    } catch (error) {
      if (signal?.aborted || error.name === 'AbortError') return;
      replace(body, shown(error));
      if (error.status === 0) server.addEventListener('back', element.fill, { once: true, signal });
      if (!error.code) throw error;
    }
  };
  element.fill();
  return element;
}

/** Return a list of terms and what they are: `facts([['Labels', 12], ...])`; an entry that is null is omitted. */
export function facts(pairs, style = 'facts') {
  const entries = pairs.filter(Boolean).map(([term, ...values]) => [h('dt', {}, term), h('dd', {}, values)]);
  return h('dl', { class: style }, style === 'facts' ? entries.map((entry) => h('div', {}, entry)) : entries);
}

/**
 * Call a function now and every so often while the tab is visible, until the signal.
 *
 * One call ends before the next begins. `milliseconds` between them may be a function, asked each time.
 */
export function repeat(milliseconds, run, signal) {
  let timer = 0;
  let running = false;
  const next = async () => {
    clearTimeout(timer);
    if (signal.aborted || document.hidden || running) return;
    running = true;
    try {
      await run();
    } finally {
      running = false;
      if (!signal.aborted) timer = setTimeout(next, typeof milliseconds === 'function' ? milliseconds() : milliseconds);
    }
  };
  document.addEventListener('visibilitychange', next, { signal });
  signal.addEventListener('abort', () => clearTimeout(timer));
  next();
}
