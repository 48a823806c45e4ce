/** Shows how far the server is while it compiles functions: its first start on a machine takes a while. */

import { address } from './api.js';
import { h, replace } from './dom.js';
import { duration } from './format.js';
import { bar } from './top.js';

const LOOK_MS = 1_000;
let watching = false;

/**
 * Show a bar while the server compiles functions.
 *
 * @param {() => void} onReady called when the server is ready, after it was not.
 */
export async function watchCompiling(onReady) {
  if (watching) return;
  watching = true;
  const line = h('span', {});
  let [away, waited] = [null, false];
  for (;;) {
    const state = await look();
    const waits = state?.ready !== true;
    if (state?.compiling) {
      away ??= bar('info', line);
      replace(line, shown(state.compiling, waits));
    }
    if (waited && !waits) onReady();
    waited = waits && (waited || state?.compiling != null);
    if (!state?.compiling && !waited) break;
    await new Promise((done) => { setTimeout(done, LOOK_MS); });
  }
  away?.();
  watching = false;
}

/** Return the response of /readyz, even with status 503; null if the server does not answer. */
async function look() {
  try {
    return await (await fetch(address('readyz'), { cache: 'no-store' })).json();
  } catch {
    return null;
  }
}

function shown({ done, total, seconds_left: left }, waits) {
  const about = left === null ? '' : `, about ${duration(Math.ceil(left))} left`;
  const what = waits ? 'The server compiles its functions, once on this machine' : 'Functions that only some models need are being compiled';
  return [`${what}: ${done} of ${total}${about} `, h('progress', { value: done, max: total, 'aria-label': 'Compiled functions' })];
}
