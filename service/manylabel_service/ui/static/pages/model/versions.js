/** The versions of a trained model: which one is served, and another one promoted. */

import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, link, replace, route } from '../../core/dom.js';
import { bytes, clock, count, value } from '../../core/format.js';
import { section } from '../../core/section.js';
import { ask } from '../../parts/dialog.js';
import { promote } from './promote.js';

export function versions(live) {
  const { name, signal } = live;
  const table = h('ml-table', { caption: 'All versions' });
  const said = h('div', { class: 'said', role: 'status' });
  const look = async () => {
    const { versions: found } = await call('GET', ofModel(name, 'versions'), { signal });
    table.update(found.map((each) => ({ ...each, micro: each.measures?.micro_f1, lowest: each.baseline?.micro_f1, actions: each.served })));
  };
  table.set([
    { key: 'version', title: 'Version', numeric: true, format: value },
    { key: 'served', title: 'State', format: (served, row) => state(served, row) },
    { key: 'trainer', title: 'Trainer', format: (trainer, { params }) => h('span', { title: JSON.stringify(params) }, trainer) },
    { key: 'micro', title: 'Micro-F1 held out', numeric: true, format: value, help: 'on held-out rows' },
    { key: 'lowest', title: 'Baseline', numeric: true, format: value },
    { key: 'rows', title: 'Rows', numeric: true, format: count },
    { key: 'bytes', title: 'Size', numeric: true, format: (size) => h('span', { title: `${size} bytes` }, bytes(size)) },
    { key: 'created', title: 'Made', format: (time, { job }) => link(route('jobs', job), clock(time)) },
    { key: 'actions', title: 'Actions', sortable: false, format: (_, row) => actions(row) },
  ], [], { key: 'version', sort: 'version', descending: true, empty: 'No job has made a version yet.' });

  function actions(row) {
    if (row.served) return h('span', { class: 'quiet' }, 'served now');
    return h('span', { class: 'row' },
      h('button', { type: 'button', onclick: () => serve(row), 'aria-label': `Promote version ${row.version}` }, 'Promote'),
      h('button', { type: 'button', class: 'danger', onclick: () => remove(row), 'aria-label': `Delete version ${row.version}` }, 'Delete'));
  }

  const changed = async (text) => {
    replace(said, h('p', { class: 'good' }, text));
    await Promise.all([look(), live.look()]);
  };

  async function serve({ version }) {
    if (await promote(name, version)) await changed(`Version ${version} is served.`);
  }

  async function remove({ version }) {
    const done = await ask({
      title: `Delete version ${version} of ${name}?`, text: 'It cannot be brought back; its measures stay.', action: 'Delete', danger: true,
      run: () => call('DELETE', ofModel(name, 'versions', String(version))),
    });
    if (done) await changed(`Version ${version} is deleted.`);
  }

  live.onEvent((kind) => { if (kind === 'promoted' || kind === 'not_promoted') look().catch(() => null); });
  return section('Versions', { signal, help: 'Versions created by training jobs. One of them serves predictions.' }, async (body) => {
    await look();
    replace(body, said, table, h('p', {}, link(`#/jobs/new?model=${encodeURIComponent(name)}`, 'Order another training')));
  });
}

function state(served, { not_promoted_because: heldBack, worse, converged }) {
  return [
    served ? h('span', { class: 'tag good' }, 'served') : h('span', { class: 'quiet' }, 'not served'), ' ',
    !converged && h('span', { class: 'tag warn', title: 'the fit reached its maximum number of iterations' }, 'not converged'),
    heldBack && h('div', { class: 'quiet' }, `held back: ${heldBack}`), worse && h('div', { class: 'quiet' }, worse),
  ];
}
