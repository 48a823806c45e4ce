import { h } from '../core/dom.js';
import { markedText } from './text.js';

const MAX_FIELDS = 500;
const MANY = 12;
const SHORT = 40;

/**
 * An example as people read it: a text as a text, a record field by field, numbers by their names or columns.
 *
 * @param {any} x as `predict` takes it
 * @param {Map<string, number>} [weights] what features add to a score, by their names as a model has them (`title=cat`)
 */
export function readable(x, weights = new Map()) {
  if (typeof x === 'string') return h('p', { class: 'ml-record' }, markedText(x, tokensOf('text', weights)));
  const fields = fieldsOf(x);
  const isMany = fields.length > MANY && fields.every(([, value]) => typeof value !== 'string' || value.length <= SHORT);
  const list = h('dl', { class: isMany ? 'ml-many' : 'pairs' }, fields.slice(0, MAX_FIELDS).map(([name, value]) => [
    h('dt', {}, name), h('dd', {}, typeof value === 'string' ? markedText(value, tokensOf(name, weights)) : JSON.stringify(value))])
    .map((pair) => (isMany ? h('div', {}, pair) : pair)));
  return h('div', { class: 'ml-record' },
    isMany ? h('div', { class: 'scroll ml-fields', tabindex: 0, role: 'group', 'aria-label': 'Fields of the example' }, list) : list,
    fields.length > MAX_FIELDS ? h('p', { class: 'quiet' }, `and ${fields.length - MAX_FIELDS} more`) : null);
}

/** Name and value of each field, including the fields of nested objects and the columns of a list. */
export function fieldsOf(x, prefix = '') {
  if (Array.isArray(x)) return x.map((value, i) => [`${prefix}${i}`, value]);
  if (Array.isArray(x?.indices) && Array.isArray(x.values)) return x.indices.map((column, i) => [`${prefix}${column}`, x.values[i]]);
  return Object.entries(x ?? {}).flatMap(([name, value]) => (
    value !== null && typeof value === 'object' && !Array.isArray(value) ? fieldsOf(value, `${prefix}${name}.`) : [[`${prefix}${name}`, value]]));
}

/** The tokens of one field, and what they add. */
function tokensOf(field, weights) {
  const start = `${field}=`;
  return new Map([...weights].filter(([name]) => name.startsWith(start)).map(([name, weight]) => [name.slice(start.length), weight]));
}
