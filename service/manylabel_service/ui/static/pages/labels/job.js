/** Waits for a job that is only part of a page. */

import { Problem, call } from '../../core/api.js';
import { repeat } from '../../core/section.js';

const POLL_MS = 1_000;
const ENDED = ['succeeded', 'failed', 'cancelled'];

/**
 * Return the document of a job when it has succeeded.
 *
 * @param {{id: string}} job
 * @param {AbortSignal} signal of the page
 * @param {function(Object)} tell called with the document until then
 * @returns {Promise<Object>}
 * @throws {Problem} the reason of a job that failed or was cancelled
 */
export async function ended(job, signal, tell) {
  const waiting = new AbortController();
  try {
    return await new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { signal: waiting.signal });
      tell(job);
      repeat(POLL_MS, async () => {
        try {
          const now = await call('GET', `v1/jobs/${encodeURIComponent(job.id)}`, { signal: waiting.signal });
          if (!ENDED.includes(now.state)) tell(now);
          else if (now.state === 'succeeded') resolve(now);
          else reject(new Problem({ title: `The job ${now.state === 'failed' ? 'failed' : 'was cancelled'}`, ...now.error }));
        } catch (problem) {
          if (problem.status !== 0) reject(problem);
        }
      }, waiting.signal);
    });
  } finally {
    waiting.abort();
  }
}
