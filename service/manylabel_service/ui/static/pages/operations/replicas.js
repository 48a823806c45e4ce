/** The servers and workers that share the store, and how far each is in the logs of the models. */

import '../../parts/table.js';
import { call } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { ago, clock } from '../../core/format.js';
import { repeat, section } from '../../core/section.js';

const LOOK_MS = 3_000;

/** Return the section. */
export function replicas(signal) {
  return section('Replicas', { signal, help: 'Servers and workers that share the store. All follow the log of each model, and have identical states at the same position.' }, async (body) => {
    const versions = h('p', { class: 'quiet' });
    const table = h('ml-table', { caption: 'Servers and workers' });
    const positions = h('ml-table', { caption: 'Positions of models' });
    table.set([
      { key: 'host', title: 'Host', format: (host, { id, pid }) => h('span', { title: `id ${id}` }, `${host}:${pid}`) },
      { key: 'role', title: 'Role', format: (role, row) => [role, row.this ? h('small', { class: 'quiet' }, ' answers now') : null] },
      { key: 'state', title: 'State', format: (state) => h('span', { class: state === 'ready' ? 'tag good' : 'tag warn' }, state) },
      { key: 'release', title: 'Release', format: (release, { build }) => h('span', { title: `build ${build}` }, release) },
      { key: 'supports', title: 'Supported format', numeric: true },
      { key: 'started_at', title: 'Started', format: (time) => h('span', { title: clock(time) }, ago(time)) },
      { key: 'models', title: 'Models', numeric: true },
    ], [], { key: 'id' });
    let names = null;
    const look = async () => {
      const found = await call('GET', 'v1/replicas', { signal });
      replace(versions, `The store has format ${found.format}.`);
      table.update(found.replicas.map((each) => ({
        ...each, state: stateOf(each), models: Object.keys(each.models).length,
      })));
      const servers = found.replicas.filter(({ role }) => role === 'server');
      if (servers.map(({ id }) => id).join() !== names) {
        names = servers.map(({ id }) => id).join();
        positions.set([
          { key: 'model', title: 'Model' }, { key: 'alike', title: 'Together', format: (alike) => (alike ? 'yes' : h('span', { class: 'warn' }, 'not yet')) },
          ...servers.map(({ id, host, pid }) => ({ key: id, title: `${host}:${pid}`, sortable: false })),
        ], [], { key: 'model', sort: 'model', empty: 'No model is in memory.' });
      }
      positions.update(rows(servers));
    };
    await look();
    replace(body, versions, table, h('details', {}, h('summary', {}, 'Positions of models'), positions));
    repeat(LOOK_MS, () => look().catch(() => null), signal);
  });
}

function stateOf({ ready, withheld }) {
  const names = Object.entries(withheld);
  if (names.length > 0) return `withholds ${names.map(([name, code]) => `${name} (${code})`).join(', ')}`;
  return ready ? 'ready' : 'not ready';
}

function rows(servers) {
  const models = [...new Set(servers.flatMap((each) => Object.keys(each.models)))];
  return models.map((model) => {
    const found = servers.map((each) => each.models[model]).filter((position) => position !== undefined);
    return { model, alike: found.every((position) => position === found[0]), ...Object.fromEntries(servers.map((each) => [each.id, each.models[model] ?? 'not in memory'])) };
  });
}
