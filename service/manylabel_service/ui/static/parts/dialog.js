import { h, shown } from '../core/dom.js';

let dialogs = 0;

/**
 * Ask once before something that cannot be taken back.
 *
 * @param {Object} what `title`; `text`: what will happen, a text or nodes; `action`: the word on the button; `danger`: the
 *   button says so by its colour; `run`: an async function, whose error is shown in the dialog, which stays open then.
 * @returns {Promise<boolean>} whether it was done; false when the dialog was closed otherwise.
 */
export function ask({ title, text, action, danger = false, run = null }) {
  return new Promise((resolve) => {
    dialogs += 1;
    const id = `ml-dialog-${dialogs}`;
    let done = false;
    const problem = h('div');
    const go = h('button', { type: 'button', class: danger ? 'danger' : 'primary', onclick: act }, action);
    const box = h('dialog', { class: 'ml-dialog', 'aria-labelledby': id, onclose: end },
      h('h2', { id }, title), h('div', {}, text), problem,
      h('div', { class: 'actions' }, h('button', { type: 'button', autofocus: true, onclick: () => box.close() }, 'Cancel'), go));
    async function act() {
      go.disabled = true;
      try {
        await run?.();
        done = true;
        box.close();
      } catch (error) {
        problem.replaceChildren(shown(error));
        go.disabled = false;
      }
    }
    function end() {
      box.remove();
      resolve(done);
    }
    document.body.append(box);
    box.showModal();
  });
}
