/** Calls the public HTTP interface, and watches whether the server answers at all. */

import { ROOT, askForKey, key } from './session.js';

const FIRST_TRY_MS = 1_000;
const MOST_TRY_MS = 10_000;
const PROBE_MS = 5_000;

/** An error of the interface: its problem document, or, with status 0, that the server is out of reach. */
export class Problem extends Error {
  /** @param {Object} document `status`, `code`, `title`, `detail` and whatever else the server says. */
  constructor(document) {
    super(document.detail ?? document.title);
    Object.assign(this, document);
  }
}

/** Events of the server: `gone` when it does not respond, `back` when it responds again. */
export const server = new EventTarget();
let gone = false;

/** Return the absolute URL of a path such as `v1/models`, also behind a prefix. */
export function address(path, query) {
  const url = new URL(path.replace(/^\//, ''), ROOT);
  for (const [name, value] of Object.entries(query ?? {})) if (value != null) url.searchParams.set(name, value);
  return url;
}

/** Return the path of a model, or of something below it: `ofModel('tags', 'metrics')`. */
export function ofModel(name, ...parts) {
  return ['v1/models', ...[name, ...parts].map(encodeURIComponent)].join('/');
}

/**
 * Ask the server.
 *
 * @param {string} method of HTTP.
 * @param {string} path as `v1/models`, relative to where the server answers.
 * @param {Object} [options] `body` (sent as JSON; a string or a file with its own Content-Type in `headers` as it is), `query`,
 *   `headers`, `signal`; `quiet`: do not ask for a key.
 * @returns {Promise<any>} the parsed response; null if it is empty; text where it is not JSON.
 * @throws {Problem} the error of the server; after 401 the page asks for a key and retries.
 */
export async function call(method, path, { body, query, headers, signal, quiet = false } = {}) {
  for (;;) {
    const used = key();
    const answer = await send(method, address(path, query), used, body, headers, signal);
    if (answer.ok) return read(answer);
    const problem = await problemOf(answer);
    if (problem.status !== 401 || quiet) throw problem;
    if (key() === used && !(await askForKey(problem.detail))) throw problem;
  }
}

async function send(method, url, used, body, headers, signal) {
  const isRaw = typeof body === 'string' || body instanceof Blob;
  try {
    const answer = await fetch(url, {
      method,
      signal,
      cache: 'no-store',
      headers: {
        ...(body === undefined || isRaw ? {} : { 'Content-Type': 'application/json' }),
        ...(used ? { Authorization: `Bearer ${used}` } : {}),
        ...headers,
      },
      body: body === undefined || isRaw ? body : JSON.stringify(body),
    });
    if (answer.status === 502 || answer.status === 504) lose();
    return answer;
  } catch (error) {
    if (signal?.aborted) throw error;
    lose();
    throw new Problem({ status: 0, code: 'unreachable', title: 'Server unreachable', detail: 'The server does not answer.' });
  }
}

async function read(answer) {
  if (answer.status === 204) return null;
  return /json/.test(answer.headers.get('content-type') ?? '') ? answer.json() : answer.text();
}

async function problemOf(answer) {
  const unknown = { status: answer.status, title: answer.statusText || `Status ${answer.status}`, detail: 'The server gave no reason.' };
  return new Problem({ ...unknown, ...(await answer.json().catch(() => ({}))) });
}

/** Note that the server did not answer, and look for it until it does. */
export function lose() {
  if (gone) return;
  gone = true;
  server.dispatchEvent(new Event('gone'));
  let wait = FIRST_TRY_MS;
  const look = async () => {
    if (await answers()) {
      gone = false;
      server.dispatchEvent(new Event('back'));
    } else {
      wait = Math.min(2 * wait, MOST_TRY_MS);
      setTimeout(look, wait);
    }
  };
  setTimeout(look, wait);
}

async function answers() {
  try {
    return (await fetch(address('readyz'), { cache: 'no-store', signal: AbortSignal.timeout(PROBE_MS) })).ok;
  } catch {
    return false;
  }
}

/** Return whether the server has other modules than these: it was upgraded. */
export async function upgraded() {
  try {
    const answer = await fetch(new URL('../main.js', import.meta.url), { method: 'HEAD', cache: 'no-store' });
    return answer.status === 404;
  } catch {
    return false;
  }
}

/** Return the models that were used last, by name. */
export async function latestModels(signal) {
  const { models } = await call('GET', 'v1/models', { query: { sort: 'used' }, signal });
  return models.sort((a, b) => (a.name < b.name ? -1 : 1));
}
