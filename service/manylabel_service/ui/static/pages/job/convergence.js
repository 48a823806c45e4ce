/** How the fit of a job converges: objective and gap, as events tell of them, and in full once there is a version. */

import '../../parts/line.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { section } from '../../core/section.js';

/** Return the section; of a job that runs, curves begin when the page is opened. */
export function convergence(live) {
  return section('How it converges', {
    signal: live.signal,
    help: 'Objective: what the fit minimises or maximises. Gap: upper bound of the relative distance from the optimum; the fit ends when it is below the tolerance. Each fold, and each trial of a search, is a separate fit.',
  }, async (body) => {
    const objective = h('ml-line', { heading: 'Objective', 'x-title': 'iteration', 'y-title': 'objective' });
    const gap = h('ml-line', { heading: 'Gap to the optimum', 'x-title': 'iteration', 'y-title': 'relative gap', 'y-scale': 'log' });
    const said = h('p', { class: 'quiet' });
    const whole = async ({ model, result }) => {
      const { convergence: course } = await call('GET', ofModel(model, 'detail'), { query: { version: result.version }, signal: live.signal });
      fill(objective, course.iteration, course.objective, 'objective');
      fill(gap, course.iteration, course.gap.map((each) => (each > 0 ? each : null)), 'gap');
      replace(said, `${result.converged ? 'The fit of all rows converged' : 'The fit of all rows used up its iterations'} after ${course.iteration.at(-1) ?? 0} iterations.`);
    };
    const fit = { name: null, iteration: -1 };
    const add = (progress) => {
      if (!progress) return;
      const name = nameOf(progress);
      if (name !== fit.name || progress.iteration < fit.iteration) {
        objective.clear();
        gap.clear();
        replace(said, `Now: ${name}.`);
      } else if (progress.iteration === fit.iteration) return;
      Object.assign(fit, { name, iteration: progress.iteration });
      if (progress.objective !== null) objective.push(progress.iteration, { objective: progress.objective });
      if (progress.gap > 0) gap.push(progress.iteration, { gap: progress.gap });
    };
    replace(body, said, h('div', { class: 'grid' }, objective, gap));
    let complete = false;
    live.on((job, kind) => {
      if (job.state === 'succeeded' && job.result && !complete) {
        complete = true;
        whole(job).catch((error) => { if (!live.signal.aborted) replace(said, error.detail ?? error.message); });
      } else if (kind !== 'log' && !complete) {
        if (!job.progress) replace(said, job.state === 'queued' ? 'The job waits for its turn.' : 'There is nothing to show yet.');
        add(job.progress);
      }
    });
  });
}

function nameOf({ fold, folds, trials }) {
  const part = fold === null ? 'the fit of all rows' : `fold ${fold} of ${folds}`;
  return trials && trials.done < trials.total ? `trial ${trials.done + 1}, ${part}` : part;
}

function fill(line, xs, ys, name) {
  line.clear();
  if (ys.some((y) => y !== null)) line.set(xs, { [name]: ys });
}
