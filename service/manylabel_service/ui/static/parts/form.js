import { h } from '../core/dom.js';

const LONG_TEXT = 60;
let forms = 0;

/**
 * A form from a JSON schema of an object, as `GET /v1/trainers` and the OpenAPI description have them.
 *
 * Numbers have their bounds and defaults, choices are a list, booleans a box to tick, objects a group of fields, lists of
 * plain values are written with commas between them, and whatever else is written as JSON. A field that is left as it
 * was is not part of the value, so that the server's default holds; null is an empty field.
 *
 * @param {Object} schema with `properties`; `$ref` into `$defs` are followed
 * @param {Object} [options] `legend`; `value`: what stands in the fields at first; `only` or `without`: names of properties;
 *   `several`: each field takes any number of values, with commas between them, as a search has them
 * @returns {{element: HTMLElement, value: function(): Object, check: function(): boolean, show: function(Object, string=): Object[], clear: function()}}
 *   `value()` is the object; `check()` says whether all fields can be read, and shows at each why it cannot; `show(problem,
 *   at)` writes each of the problem's `errors` whose pointer begins with `at` beside the field it names, and returns those
 *   that no field is for; `clear()` takes such texts away
 */
export function schemaForm(schema, { legend = null, value = {}, only = null, without = [], several = false } = {}) {
  const fields = fieldsOf(schema, schema.$defs ?? schema.definitions ?? {}, { value, only, without, several });
  const element = h('fieldset', { class: 'ml-form' }, legend && h('legend', {}, legend), fields.map((field) => field.element));
  const all = () => fields.flatMap((field) => field.leaves?.() ?? [field]);
  return {
    element,
    value: () => collect(fields),
    check: () => all().map((field) => field.check()).every(Boolean),
    clear: () => all().forEach((field) => field.say('')),
    show: (problem, at = '') => place(problem.errors ?? [], at, all()),
  };
}

function fieldsOf(schema, definitions, { value, only, without, several }, path = []) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {})
    .filter(([name]) => (path.length ? true : (!only || only.includes(name)) && !without.includes(name)))
    .map(([name, property]) => {
      const kinds = kindsOf(property, definitions);
      const here = { name, path: [...path, name], required: required.has(name), property: resolve(property, definitions), kinds, value: value?.[name], several };
      const nested = !several && kinds.length === 1 && kinds[0].properties ? kinds[0] : null;
      return nested ? group(here, nested, definitions) : field(here);
    });
}

function resolve(schema, definitions) {
  const name = schema.$ref?.split('/').pop() ?? (schema.allOf?.length === 1 ? schema.allOf[0].$ref?.split('/').pop() : null);
  return name && definitions[name] ? { ...definitions[name], ...schema, $ref: undefined, allOf: undefined } : schema;
}

/** The schemas one of which a value has to fit. */
function kindsOf(property, definitions) {
  const found = resolve(property, definitions);
  const kinds = found.anyOf ?? found.oneOf;
  return kinds ? kinds.flatMap((kind) => kindsOf(kind, definitions)) : [found];
}

function collect(fields) {
  const found = {};
  for (const each of fields) {
    const value = each.value();
    if (value !== undefined) found[each.name] = value;
  }
  return found;
}

function group({ name, path, property, value }, schema, definitions) {
  const fields = fieldsOf(schema, definitions, { value: value ?? property.default ?? {}, only: null, without: [], several: false }, path);
  return {
    name,
    element: h('fieldset', { class: 'ml-form' }, h('legend', {}, words(name)), help(property), fields.map((each) => each.element)),
    value: () => {
      const found = collect(fields);
      return Object.keys(found).length ? found : undefined;
    },
    leaves: () => fields.flatMap((each) => each.leaves?.() ?? [each]),
  };
}

/** One field: `element`, `value()`, `check()`, `say(text)` and its `path`. */
function field({ name, path, required, property, kinds, value, several }) {
  forms += 1;
  const id = `ml-field-${forms}`;
  const kind = kindOf(kinds, several);
  const given = value !== undefined ? value : property.default;
  const control = kind.control({ id, kinds, property, required });
  kind.write(control, several ? value : given);
  const before = kind.read(control, kinds);
  const error = h('span', { class: 'ml-error', id: `${id}-error` });
  const about = h('span', { class: 'ml-help', id: `${id}-help` }, [property.description, allowed(kinds, property)].filter(Boolean).join(' '));
  control.setAttribute('aria-describedby', `${id}-help ${id}-error`);
  const label = h('label', { for: id }, words(name), required ? ' (required)' : '');
  const say = (text) => {
    error.textContent = text;
    if (text) control.setAttribute('aria-invalid', 'true');
    else control.removeAttribute('aria-invalid');
  };
  control.addEventListener('input', () => say(''));
  return {
    name,
    path,
    element: h('div', { class: control.type === 'checkbox' ? 'ml-field ml-check' : 'ml-field' }, control.type === 'checkbox' ? [control, label] : [label, control], error, about),
    value: () => {
      const now = kind.read(control, kinds).value;
      const changed = value !== undefined || JSON.stringify(now) !== JSON.stringify(before.value);
      return changed || (required && now !== undefined) ? now : undefined;
    },
    check: () => {
      const { problem } = kind.read(control, kinds);
      const text = control.validity?.badInput ? 'Expected a number' : problem ?? (required && kind.isEmpty(control) ? 'Required' : '');
      say(text);
      return !text;
    },
    say,
    focus: () => control.focus(),
  };
}

// -- kinds of fields: each makes its control, writes a value into it and reads it -------------------

const TICK = {
  control: ({ id }) => h('input', { id, type: 'checkbox' }),
  write: (control, value) => { control.checked = Boolean(value); },
  read: (control) => ({ value: control.checked }),
  isEmpty: () => false,
};

const CHOICE = {
  control: ({ id, kinds, required, property }) => h('select', { id },
    (!required && property.default === undefined) || kinds.some(isNull) ? h('option', { value: 'null' }, property.default === undefined ? '–' : 'null') : null,
    kinds.flatMap(choices).map((choice) => h('option', { value: JSON.stringify(choice) }, String(choice)))),
  write: (control, value) => { control.value = JSON.stringify(value ?? null); },
  read: (control, kinds) => ({ value: control.value === 'null' || control.value === '' ? (kinds.some(isNull) ? null : undefined) : JSON.parse(control.value) }),
  isEmpty: (control) => control.value === '',
};

const NUMBER = {
  control: ({ id, kinds }) => {
    const number = kinds.find(isNumber);
    return h('input', {
      id, type: 'number', step: number.type === 'integer' ? 1 : 'any', min: number.minimum ?? number.exclusiveMinimum,
      max: number.maximum ?? number.exclusiveMaximum, placeholder: kinds.some(isNull) ? 'null' : null, autocomplete: 'off',
    });
  },
  write: (control, value) => { control.value = value ?? ''; },
  read: (control, kinds) => ({ value: control.value === '' ? (kinds.some(isNull) ? null : undefined) : Number(control.value) }),
  isEmpty: (control) => control.value === '',
};

const TEXT = {
  control: ({ id, kinds }) => h('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: kinds.some(isNull) ? 'null' : null }),
  write: (control, value) => { control.value = value ?? ''; },
  read: (control, kinds) => ({ value: control.value === '' ? (kinds.some(isNull) ? null : undefined) : control.value }),
  isEmpty: (control) => control.value === '',
};

const MIXED = { // a word, a number, or JSON
  control: ({ id, kinds }) => h(kinds.some((kind) => kind.type === 'array' || kind.type === 'object') ? 'textarea' : 'input',
    { id, rows: 3, autocomplete: 'off', spellcheck: 'false', placeholder: kinds.some(isNull) ? 'null' : null }),
  write: (control, value) => {
    control.value = value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);
  },
  read: (control, kinds) => {
    if (control.value.trim() === '') return { value: kinds.some(isNull) ? null : undefined };
    return parsed(control.value.trim(), kinds);
  },
  isEmpty: (control) => control.value.trim() === '',
};

const SEVERAL = { // values with commas between them; or a list in JSON
  control: ({ id }) => h('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: 'values, with commas between them' }),
  write: (control, value) => {
    control.value = (value ?? []).map((each) => (typeof each === 'string' ? each : JSON.stringify(each))).join(', ');
  },
  read: (control, kinds) => {
    const text = control.value.trim();
    if (text === '') return { value: undefined };
    if (text.startsWith('[')) return parsed(text, kinds);
    const values = text.split(',').map((each) => parsed(each.trim(), kinds));
    return values.find(({ problem }) => problem) ?? { value: values.map((each) => each.value) };
  },
  isEmpty: (control) => control.value.trim() === '',
};

function kindOf(kinds, several) {
  const real = kinds.filter((kind) => !isNull(kind));
  if (several || (real.length === 1 && isPlainList(real[0]))) return SEVERAL;
  if (real.length === 1 && real[0].type === 'boolean' && real.length === kinds.length) return TICK;
  if (real.length > 0 && real.every((kind) => choices(kind).length || kind.type === 'boolean')) return CHOICE;
  if (real.length === 1 && isNumber(real[0])) return NUMBER;
  return real.length === 1 && real[0].type === 'string' ? TEXT : MIXED;
}

function parsed(text, kinds) {
  const words = kinds.flatMap(choices);
  if (words.includes(text)) return { value: text };
  try {
    return { value: JSON.parse(text) };
  } catch {
    const free = kinds.some((kind) => (kind.items ?? kind).type === 'string' && !choices(kind).length);
    return free ? { value: text } : { value: text, problem: words.length ? `Expected a number or one of ${words.join(', ')}` : 'Expected a number, or JSON' };
  }
}

const isNull = (kind) => kind.type === 'null';
const isNumber = (kind) => kind.type === 'number' || kind.type === 'integer';
const isPlainList = (kind) => kind.type === 'array' && ['string', 'number', 'integer', 'boolean'].includes(kind.items?.type);
const choices = (kind) => {
  if (kind.type === 'boolean') return [true, false];
  return kind.enum ?? (kind.const === undefined ? [] : [kind.const]);
};

/** What a field may be, in words. */
function allowed(kinds, property) {
  const found = kinds.map((kind) => {
    if (isNumber(kind)) {
      const bounds = [
        kind.minimum !== undefined && `at least ${kind.minimum}`, kind.exclusiveMinimum !== undefined && `above ${kind.exclusiveMinimum}`,
        kind.maximum !== undefined && `at most ${kind.maximum}`, kind.exclusiveMaximum !== undefined && `below ${kind.exclusiveMaximum}`,
      ].filter(Boolean);
      return bounds.length ? `${kind.type === 'integer' ? 'a whole number' : 'a number'} ${bounds.join(' and ')}` : null;
    }
    return kinds.length > 1 && choices(kind).length ? choices(kind).join(', ') : null;
  }).filter(Boolean);
  const said = found.length ? `Allowed: ${found.join('; ')}.` : '';
  const start = property.default;
  return `${said}${start === undefined || start === null ? '' : ` Default: ${typeof start === 'string' ? start : JSON.stringify(start)}.`}`.trim();
}

function help(property) {
  return property.description && property.description.length > 0 ? h('p', { class: 'ml-help' }, property.description) : null;
}

function words(name) {
  return name.length > LONG_TEXT ? `${name.slice(0, LONG_TEXT)}…` : name;
}

// -- errors of the API, at the fields that they name -------------------------------------------------

function place(errors, at, fields) {
  const left = [];
  let first = null;
  for (const each of errors) {
    const inside = each.pointer !== undefined && (each.pointer === at || each.pointer.startsWith(`${at}/`));
    const path = inside ? each.pointer.slice(at.length).split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')) : null;
    const named = path?.length ? fields.find((field) => field.path.every((part, i) => path[i] === part)) : null;
    if (!named) {
      left.push(each);
      continue;
    }
    named.say(each.detail);
    first ??= named;
  }
  first?.focus();
  return left;
}
