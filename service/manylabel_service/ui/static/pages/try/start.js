/** An example to begin with: one that the server has, the last one tried, or a template. */

import { call, ofModel } from '../../core/api.js';

const LAST = 'manylabel example';
const MAX_COLUMNS = 400;

/** Keep an example for other models in this tab: two of them are compared by what they say of the same. */
export function remember(model, x) {
  try {
    sessionStorage.setItem(LAST, JSON.stringify({ model, x }));
  } catch { /* too long for the browser's storage: it is still tried */ }
}

/**
 * @param {Object} status of the model
 * @returns {Promise<{x: any, from: string, id: string | null, kept: Object[], isEmpty: boolean=}>} the example, in words where it
 *   comes from, the id of its stored prediction, all waiting ones with their input, and whether it is a template
 */
export async function startOf(name, status, signal) {
  const kept = await waiting(name, status, signal);
  const last = JSON.parse(sessionStorage.getItem(LAST) ?? 'null');
  if (last?.model === name) return { x: last.x, from: 'It is the one that you tried last.', id: null, kept };
  if (kept.length) return { x: kept[0].record, from: 'It is one that was kept to be labelled.', id: kept[0].id, kept };
  const empty = await template(name, status, signal);
  if (last && isNumbered(last.x) === isNumbered(empty)) return { x: last.x, from: `It is the one that you tried on ${last.model}.`, id: null, kept };
  return { x: empty, from: 'Fill it in: the server has kept no example of this model.', id: null, kept, isEmpty: true };
}

/** Whether an example has columns with numbers, and not names. */
function isNumbered(x) {
  return Array.isArray(x) || Array.isArray(x?.indices) || x?.views !== undefined;
}

async function waiting(name, status, signal) {
  if (status.algorithm === 'trained') return [];
  try {
    const { predictions } = await call('GET', ofModel(name, 'predictions'), { query: { limit: 50 }, signal });
    return predictions.filter(({ record }) => record !== undefined && record !== null);
  } catch (problem) {
    if (problem.status === 403 || problem.status === 429 || problem.status === 413) return []; // a key that may not learn can still try
    throw problem;
  }
}

/** Something of the form that the model takes, with nothing in it. */
async function template(name, status, signal) {
  const { inputs } = await call('GET', `v2/models/${encodeURIComponent(name)}`, { signal }).catch((problem) => {
    if (problem.status) return { inputs: [] };
    throw problem;
  });
  const row = ({ shape }) => new Array(Math.max(1, shape[shape.length - 1])).fill(0);
  const numbered = inputs.filter(({ datatype }) => datatype === 'FP32');
  if (numbered.length > 1) return { views: Object.fromEntries(numbered.map((input) => [input.name, row(input)])) };
  if (numbered.length === 1) return numbered[0].shape[1] <= MAX_COLUMNS ? row(numbered[0]) : { indices: [0], values: [1] };
  if (status.text?.fields?.length) return Object.fromEntries(status.text.fields.map((field) => [field, '']));
  return status.text && status.features === 0 ? '' : {};
}
