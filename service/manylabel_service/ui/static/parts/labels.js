import { h, replace } from '../core/dom.js';

const AT_ONCE = 24;
let pickers = 0;

/**
 * Boxes to select the labels of an example; any other label, also a new one, can be typed.
 *
 * @param {Object} options `legend`; `known`: names of all labels; `likely`: those to show first, as `{name, text}`, a text or an element, with what
 *   is said beside them; `picked`: names; `keys`: the digits 1 to 9 stand at the first nine; `note`: what
 *   becomes of a label that is typed; `onchange`
 * @returns {{element: HTMLElement, value: function(): string[], toggle: function(number), typing: function()}} `toggle(i)`
 *   ticks the i-th box or takes it back; `typing()` goes to the field for another label
 */
export function labelPicker({ legend, known, likely, picked = [], keys = false, note: said = 'A label that is new is learnt as such.', onchange = () => {} }) {
  pickers += 1;
  const id = `ml-labels-${pickers}`;
  const boxes = [];
  const list = h('div', { class: 'ml-picks' });
  const add = (name, text, ticked) => {
    const number = boxes.length + 1;
    const box = h('input', { type: 'checkbox', value: name, checked: ticked, onchange });
    boxes.push(box);
    list.append(h('label', { class: 'ml-pick' }, box, keys && number < 10 ? h('kbd', {}, String(number)) : null,
      h('span', { class: 'ml-pick-name' }, name), text === undefined ? null : h('span', { class: 'quiet' }, text)));
    return box;
  };
  const first = new Map(likely.map(({ name, text }) => [name, text]));
  const wanted = new Set([...picked, ...first.keys(), ...known]);
  const chosen = new Set(picked);
  const order = [...[...first.keys()], ...[...wanted].filter((name) => !first.has(name))];
  const shown = new Set([...order.slice(0, AT_ONCE), ...picked]);
  for (const name of order) if (shown.has(name)) add(name, first.get(name), chosen.has(name));
  const left = order.filter((name) => !shown.has(name));

  const options = h('datalist', { id: `${id}-all` });
  const typed = h('input', { id: `${id}-other`, list: `${id}-all`, autocomplete: 'off', spellcheck: 'false' });
  const note = h('span', { class: 'ml-help', id: `${id}-note` },
    left.length ? `${left.length.toLocaleString('en')} more are known. ` : '', said);
  typed.setAttribute('aria-describedby', `${id}-note`);
  typed.addEventListener('focus', () => { if (!options.childElementCount) replace(options, left.map((name) => h('option', { value: name }))); });
  typed.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    take();
  });
  function take() {
    const name = typed.value.trim();
    if (!name) return;
    const known = boxes.find((box) => box.value === name) ?? add(name, undefined, true);
    known.checked = true;
    typed.value = '';
    onchange();
    known.focus();
  }
  return {
    element: h('fieldset', { class: 'ml-labels' }, h('legend', {}, legend), list,
      h('div', { class: 'ml-other' }, h('label', { for: `${id}-other` }, 'Another label'), typed,
        h('button', { type: 'button', onclick: take }, 'Add'), options, note)),
    value: () => boxes.filter((box) => box.checked).map((box) => box.value),
    toggle: (i) => {
      if (!boxes[i]) return;
      boxes[i].checked = !boxes[i].checked;
      onchange();
    },
    typing: () => typed.focus(),
  };
}
