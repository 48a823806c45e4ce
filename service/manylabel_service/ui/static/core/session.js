/** Keeps the key for this tab, and asks for one where the server wants one. */

import { h, replace } from './dom.js';

/** The address below which the server answers; it may be behind a prefix. */
export const ROOT = new URL('../../../', import.meta.url);

const PLACE = `manylabel key of ${ROOT.pathname}`;
const changes = new EventTarget();
let asking = null;

/** Return the key of this tab; null for none. */
export function key() {
  return sessionStorage.getItem(PLACE);
}

/** Take another key, null for none, and tell those who listen. */
export function setKey(value) {
  if (value) sessionStorage.setItem(PLACE, value);
  else sessionStorage.removeItem(PLACE);
  changes.dispatchEvent(new Event('change'));
}

/** Call a function whenever the key changes. */
export function onKeyChange(listener, signal) {
  changes.addEventListener('change', listener, { signal });
}

/**
 * Ask for a key, once for all who want one at the moment.
 *
 * @param {string} [why] what the server says.
 * @returns {Promise<boolean>} whether there is another key now.
 */
export function askForKey(why) {
  asking ??= dialog(why).finally(() => { asking = null; });
  return asking;
}

function dialog(why) {
  return new Promise((resolve) => {
    const field = h('input', {
      id: 'key', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, placeholder: 'ml_…',
      'aria-describedby': 'key-why',
    });
    const box = h('dialog', { class: 'key', 'aria-labelledby': 'key-title', onclose: end },
      h('form', { method: 'dialog', onsubmit: take },
        h('h2', { id: 'key-title' }, 'A key is needed'),
        h('p', { id: 'key-why' }, why ? `${why}. ` : '', 'It is stored in this tab only, until the tab is closed.'),
        h('label', { for: 'key' }, 'Key'), field,
        h('div', { class: 'actions' },
          h('button', { type: 'button', onclick: () => box.close() }, 'Not now'),
          h('button', { type: 'submit', class: 'primary' }, 'Use this key'))));
    let taken = false;
    function take() {
      taken = true;
      setKey(field.value.trim());
    }
    function end() {
      box.remove();
      resolve(taken);
    }
    document.body.append(box);
    box.showModal();
  });
}

/** Return a button that shows which key is in use, and changes it. */
export function keyButton() {
  const place = h('span', { class: 'key-state' });
  const draw = () => replace(place, key()
    ? [h('code', { title: 'ID of the key in use' }, key().split('_').slice(0, 2).join('_')),
      h('button', { type: 'button', onclick: () => { setKey(null); location.reload(); } }, 'Forget key')]
    : h('button', { type: 'button', onclick: async () => { if (await askForKey()) location.reload(); } }, 'Use a key'));
  onKeyChange(draw);
  draw();
  return place;
}
