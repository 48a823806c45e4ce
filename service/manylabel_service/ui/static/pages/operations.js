/** The server itself: whether all is well, who shares the store, keys, webhooks, and states to take along. */

import { archive } from './operations/archive.js';
import { keys } from './operations/keys.js';
import { replicas } from './operations/replicas.js';
import { webhooks } from './operations/webhooks.js';
import { health } from './operations/health.js';
import { h } from '../core/dom.js';

export function title() {
  return 'Operations';
}

export async function render(parameters, { signal }) {
  return h('div', {}, health(signal), replicas(signal), keys(signal), webhooks(signal), archive(signal));
}
