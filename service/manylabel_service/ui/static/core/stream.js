/**
 * Watches server-sent events. A shared worker holds the connections, so that all tabs share one for each address and
 * key; a browser opens six to a host, and the seventh would hang.
 */

import { address, lose, server } from './api.js';
import { askForKey, key, onKeyChange } from './session.js';

const POLL_MS = 3_000;
const HEARTBEAT_MS = 20_000;

let port = null;
let nextId = 0;
const watching = new Map();

/**
 * Watch a stream of events while the tab is visible.
 *
 * @param {string} path as `v1/models/tags/events`.
 * @param {Object<string, (data: any) => void>} handlers by kind of event, given its data. Besides those of the server:
 *   `open`: connected, or connected again, maybe to another replica: fetch the full picture. Where a stream cannot be
 *   had (no shared worker, too many at once) it is called every three seconds instead. `lost`: the connection broke.
 *   `problem`: the server rejected the request, with its problem document. `end`: the server ended the stream, which is
 *   requested again unless `signal` is aborted then.
 * @param {AbortSignal} signal ends it.
 */
export function watch(path, handlers, signal) {
  if (signal.aborted) return;
  const id = nextId++;
  const one = { url: String(address(path)), handlers, timer: 0 };
  watching.set(id, one);
  const begin = () => {
    if (document.hidden) return;
    const to = connection();
    if (to) to.postMessage({ watch: id, url: one.url, key: key() });
    else poll(one);
  };
  const stop = () => {
    clearInterval(one.timer);
    one.timer = 0;
    if (port) port.postMessage({ leave: id });
  };
  one.begin = begin;
  one.stop = stop;
  onKeyChange(() => { stop(); begin(); }, signal);
  signal.addEventListener('abort', () => {
    stop();
    watching.delete(id);
  });
  begin();
}

document.addEventListener('visibilitychange', () => each(document.hidden ? 'stop' : 'begin'));
server.addEventListener('back', () => port && port.postMessage({ hurry: true }));
addEventListener('pagehide', () => each('stop'));
addEventListener('pageshow', (event) => { if (event.persisted) each('begin'); });

function each(name) {
  for (const one of watching.values()) one[name]();
}

/** Return the port to the shared worker; null if unsupported. */
function connection() {
  if (port !== null || typeof SharedWorker === 'undefined') return port || null;
  try {
    const worker = new SharedWorker(new URL('worker.js', import.meta.url), { type: 'module', name: 'manylabel' });
    worker.onerror = () => {
      port = false;
      for (const one of watching.values()) poll(one);
    };
    port = worker.port;
    port.onmessage = ({ data }) => receive(data);
    setInterval(() => { if (port && !document.hidden) port.postMessage({ alive: true }); }, HEARTBEAT_MS);
  } catch {
    port = false;
  }
  return port || null;
}

/** Take the events that the worker has for one who watches. */
function receive({ id, events }) {
  const one = watching.get(id);
  if (!one) return;
  for (const { kind, data } of events) {
    if (kind === 'poll') poll(one);
    else {
      clearInterval(one.timer);
      one.timer = 0;
      if (kind === 'lost') lose();
      if (kind === 'problem' && data.status === 401) askForKey(data.detail);
      one.handlers[kind]?.(data);
    }
  }
}

function poll(one) {
  if (one.timer || document.hidden) return;
  one.timer = setInterval(() => one.handlers.open?.(), POLL_MS);
  one.handlers.open?.();
}
