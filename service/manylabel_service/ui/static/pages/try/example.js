/** The example that is tried: as a text, field by field, or as JSON. */

import { h, replace } from '../../core/dom.js';

const MAX_FORM = 400;
let editors = 0;

/**
 * An editor of what `predict` takes as `x`.
 *
 * @param {any} x to begin with
 * @param {boolean} texts whether the model reads texts
 * @param {function()} onchange
 * @returns {{element: HTMLElement, value: function(): any, set: function(any)}} `value()` throws a SyntaxError for what is
 *   no JSON
 */
export function exampleEditor(x, texts, onchange) {
  editors += 1;
  const id = `example-${editors}`;
  const place = h('div');
  let shown = null; // { mode, element, value }
  const modes = [['text', 'Text'], ['form', 'Fields'], ['json', 'JSON']];
  const radios = new Map(modes.map(([mode]) => [mode, h('input', { type: 'radio', name: `${id}-mode`, value: mode, onchange: () => turn(mode) })]));

  function show(mode, value) {
    shown = { text: textField, form: fieldForm, json: jsonField }[mode](id, value, onchange);
    shown.mode = mode;
    radios.get(mode).checked = true;
    radios.get('text').disabled = !texts || (typeof value !== 'string' && Object.keys(value ?? {}).length > 0);
    radios.get('form').disabled = !isForm(value);
    replace(place, shown.element);
  }

  function turn(mode) {
    try {
      let value = shown.value();
      if (mode === 'text' && typeof value !== 'string') value = '';
      if (mode === 'form' && typeof value === 'string') value = { text: value };
      show(mode, value);
    } catch { // not valid JSON yet: the text stays where it can be corrected
      radios.get(shown.mode).checked = true;
      shown.element.querySelector('textarea')?.focus();
    }
  }

  const set = (value) => show(typeof value === 'string' && texts ? 'text' : isForm(value) && typeof value !== 'string' ? 'form' : 'json', value);
  set(x);
  return {
    element: h('div', {}, h('fieldset', { class: 'example-choice' }, h('legend', {}, 'The example as'),
      modes.map(([mode, title]) => h('label', {}, radios.get(mode), ` ${title}`))), place),
    value: () => shown.value(),
    set,
  };
}

/** Whether an example can be shown field by field: flat, with not too many fields. */
function isForm(x) {
  if (typeof x === 'string') return true;
  if (x === null || typeof x !== 'object') return false;
  const values = Object.values(x);
  return values.length <= MAX_FORM && values.every((value) => value === null || typeof value !== 'object'
    || (Array.isArray(value) && value.every((each) => typeof each === 'string'))) && !(Array.isArray(x.indices) || Array.isArray(x.values));
}

function textField(id, value, onchange) {
  const field = h('textarea', { id, rows: 6, oninput: onchange });
  field.value = typeof value === 'string' ? value : '';
  return { element: h('div', {}, h('label', { for: id }, 'Text'), field), value: () => field.value };
}

function jsonField(id, value, onchange) {
  const error = h('span', { class: 'ml-error', id: `${id}-error` });
  const field = h('textarea', { id, rows: 10, spellcheck: 'false', 'aria-describedby': `${id}-error`, oninput: () => { error.textContent = ''; onchange(); } });
  field.value = JSON.stringify(value, null, Array.isArray(value) ? 0 : 2);
  return {
    element: h('div', {}, h('label', { for: id }, 'Example, as JSON'), field, error),
    value: () => {
      try {
        return JSON.parse(field.value);
      } catch (problem) {
        error.textContent = `This is not JSON: ${problem.message}`;
        throw problem;
      }
    },
  };
}

function fieldForm(id, value, onchange) {
  const isList = Array.isArray(value);
  const rows = h('div', { class: 'example-fields' });
  let number = 0;
  const add = (name, given, isNew = false) => {
    number += 1;
    const own = `${id}-${number}`;
    const field = typeof given === 'string' && given.length > 60
      ? h('textarea', { id: own, rows: 4, oninput: onchange }) : h('input', { id: own, autocomplete: 'off', oninput: onchange });
    field.value = written(given);
    const title = isNew
      ? h('input', { 'aria-label': 'Name of the field', placeholder: 'name', autocomplete: 'off', oninput: onchange }) : h('label', { for: own }, name);
    if (isNew) field.setAttribute('aria-label', 'Its value');
    const row = h('div', { class: typeof given === 'string' && given.length > 60 ? 'example-field long' : 'example-field' }, title, field);
    row.read = () => [isNew ? title.value.trim() : name, read(field.value, given)];
    rows.append(row);
    return title;
  };
  for (const [name, given] of Object.entries(value)) add(name, given);
  if (!isList && !number) add('', '', true);
  return {
    element: h('div', {}, h('div', { class: 'scroll example-scroll', tabindex: 0, role: 'group', 'aria-label': 'Fields of the example' }, rows),
      isList ? null : h('button', { type: 'button', onclick: () => add('', '', true).focus() }, 'Another field'),
      h('p', { class: 'quiet' }, isList ? 'An empty field is a missing value.' : 'Numbers, true and false count as such, anything else is a text or a category. An empty field is omitted.')),
    value: () => {
      const pairs = [...rows.children].map((row) => row.read());
      if (isList) return pairs.map(([, each]) => each ?? null);
      return Object.fromEntries(pairs.filter(([name, each]) => name !== '' && each !== undefined));
    },
  };
}

function written(value) {
  return value === null || value === undefined ? '' : typeof value === 'string' ? value : Array.isArray(value) ? value.join(', ') : String(value);
}

/** What was typed, as the kind of value that stood there. */
function read(text, before) {
  if (text.trim() === '') return undefined;
  if (Array.isArray(before)) return text.split(',').map((each) => each.trim()).filter(Boolean);
  if (typeof before === 'string' && before !== '') return text;
  if (text === 'true' || text === 'false') return text === 'true';
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}
