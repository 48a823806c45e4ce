/** The result of a job: its version, compared with the served version and with the model that it learnt from. */

import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, link, replace, route, shown } from '../../core/dom.js';
import { counted, value } from '../../core/format.js';
import { section } from '../../core/section.js';
import { comparison as comparisonOfLabels } from '../labels/comparison.js';
import { MEASURES } from '../model/curves.js';
import { promote } from '../model/promote.js';

/** Return the section, which is hidden until the job has a result. */
export function outcome(live) {
  const { signal } = live;
  const said = h('div', { 'aria-live': 'polite' });
  const element = section('Result', { signal, hidden: true }, (body) => {
    let drawn = null;
    live.on(({ result, data, trainer }) => {
      if (!result || drawn === (result.version ?? result.position)) return;
      drawn = result.version ?? result.position;
      if (trainer === 'dry_run') {
        replace(body, comparisonOfLabels(result));
        return;
      }
      draw(body, result, data).catch((error) => { if (!signal.aborted) replace(body, shown(error)); });
    });
  });
  live.on(({ result }) => { element.hidden = !result; });

  async function draw(body, result, data) {
    const { model, version } = result;
    const { versions } = await call('GET', ofModel(model, 'versions'), { signal });
    const own = versions.find((each) => each.version === version);
    const served = versions.find((each) => each.served);
    const isServed = served?.version === version;
    replace(body,
      h('p', {}, 'Version ', h('strong', {}, value(version)), ' of ', link(route('models', model), model), `, from ${counted(result.rows, 'row')}, `,
        result.converged ? 'converged' : 'not converged', isServed ? '; it is served.' : own ? '; it is not served.' : '; it was deleted since.'),
      result.not_promoted_because && h('p', { class: 'warn' }, `Held back: ${result.not_promoted_because}`),
      result.worse && h('p', { class: 'warn' }, result.worse),
      said,
      own && h('p', { class: 'row' },
        !isServed && h('button', { type: 'button', class: 'primary', onclick: () => serve(result, data, body) }, `Promote version ${version}`),
        h('a', { class: 'button', href: route('models', model) }, `See ${model}`),
        isServed && h('a', { class: 'button', href: route('models', model, 'try') }, 'Try it')),
      await comparison(result, served, data));
  }

  async function comparison(result, served, data) {
    const sides = [];
    if (result.held_out) {
      sides.push([`version ${result.version}`, result.held_out.measures, `${counted(result.held_out.rows, 'row')} held out`]);
      sides.push(['baseline', result.held_out.baseline, 'the same rows']);
    }
    if (served && served.version !== result.version && served.measures) sides.push([`version ${served.version}, served`, served.measures, 'held-out rows of its job']);
    if (data.stream !== undefined) {
      const metrics = await call('GET', ofModel(data.stream, 'metrics'), { signal }).catch(() => null);
      if (metrics) sides.push([`${data.stream}, online`, metrics.window, `its latest ${counted(metrics.window.examples, 'example')}, each before it was learnt`]);
    }
    if (sides.length === 0) return h('p', { class: 'empty' }, 'No rows were held out, so there is nothing to compare. Submit a job with held-out rows.');
    const table = h('ml-table', { caption: 'Measures' });
    const names = Object.keys(MEASURES).filter((name) => sides.some(([, measures]) => measures[name] !== undefined));
    table.set([
      { key: 'name', title: 'Measure', sortable: false },
      ...sides.map(([name], i) => ({ key: `side ${i}`, title: name, numeric: true, sortable: false, format: value })),
    ], names.map((name) => ({ name: MEASURES[name][0], ...Object.fromEntries(sides.map(([, measures], i) => [`side ${i}`, measures[name]])) })), { key: 'name' });
    const where = sides.map(([name, , on]) => `${name} on ${on}`).join('; ');
    return [h('h3', {}, 'Side by side'), table, h('p', { class: 'quiet' }, `Measured: ${where}. Values are comparable only if they were measured on similar examples.`)];
  }

  async function serve(result, data, body) {
    if (!await promote(result.model, result.version)) return;
    replace(said, h('p', { class: 'good' }, `Version ${result.version} is served.`));
    await draw(body, result, data);
  }
  return element;
}
