/** What is done to a job, and how it is named, wherever jobs are shown. */

import { call } from '../../core/api.js';
import { h } from '../../core/dom.js';
import { counted } from '../../core/format.js';
import { ask } from '../../parts/dialog.js';

const COLOURS = { succeeded: 'good', failed: 'bad', cancelled: 'warn', running: '', queued: '' };

/** Return the state of a job as a tag. */
export function stateTag(state) {
  return h('span', { class: `tag ${COLOURS[state] ?? ''}`.trim() }, state);
}

/** Return what a job learns from, in words. */
export function source(data) {
  if (data.stream !== undefined) return `the latest ${counted(data.last, 'example')} of ${data.stream}`;
  return `dataset ${data.dataset}${data.split ? `, ${data.split}` : ''}${data.unlabelled ? ` and unlabelled rows of ${data.unlabelled.dataset}` : ''}`;
}

/** Cancel a job, once that is confirmed; then call `done` with what happened. */
export async function cancel(job, done) {
  const yes = await ask({
    title: `Cancel ${job.trainer} for ${job.model}?`,
    text: 'The job stops within 2 s without a result. You can retry it from its last checkpoint.',
    action: 'Cancel the job', danger: true,
    run: () => call('DELETE', `v1/jobs/${encodeURIComponent(job.id)}`),
  });
  if (yes) await done('The job is cancelled.');
}

/** Queue a job again, once that is confirmed; then call `done` with what happened. */
export async function retry(job, done) {
  const yes = await ask({
    title: `Try ${job.trainer} for ${job.model} again?`,
    text: 'The job is queued again, and resumes from its last checkpoint if it has one.', action: 'Try again',
    run: () => call('POST', `v1/jobs/${encodeURIComponent(job.id)}/retry`),
  });
  if (yes) await done('The job is queued again.');
}
