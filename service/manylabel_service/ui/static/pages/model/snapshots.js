/** Stored states of a model: take one, go back to one. */

import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { bytes, clock } from '../../core/format.js';
import { repeat, section } from '../../core/section.js';
import { ask } from '../../parts/dialog.js';

const LOOK_MS = 15_000;

export function snapshots(live) {
  const { name, signal } = live;
  const table = h('ml-table', { caption: 'Stored states' });
  const said = h('div', { class: 'said', role: 'status' });
  const look = async () => {
    const { snapshots: found } = await call('GET', ofModel(name, 'snapshots'), { signal });
    table.update(found);
  };
  table.set([
    { key: 'created', title: 'Taken', format: (time, row) => h('span', { title: `position ${row.position}` }, clock(time)) },
    { key: 'pinned', title: 'Stays', format: (pinned) => pinned && h('span', { class: 'tag', title: 'a rollback in the log needs it' }, 'pinned') },
    { key: 'bytes', title: 'Size', numeric: true, format: (size) => h('span', { title: `${size} bytes` }, bytes(size)) },
    { key: 'actions', title: 'Actions', sortable: false, format: (_, row) => actions(row) },
  ], [], { key: 'position', empty: 'No snapshot yet: the server takes one after some minutes of learning.' });

  function actions(row) {
    const called = `the one of ${clock(row.created)}`;
    return h('button', { type: 'button', onclick: () => rollback(row, called), 'aria-label': `Roll back to ${called}` }, 'Roll back');
  }

  const changed = async (text) => {
    replace(said, h('p', { class: 'good' }, text));
    await Promise.all([look(), live.look()]);
  };

  async function rollback(row, called) {
    const done = await ask({
      title: `Roll ${name} back to ${called}?`,
      text: 'The model becomes what it was then: what it learnt since, its measures included, is forgotten on every server. Names of features and labels that came since stay known.',
      action: 'Roll back', danger: true,
      run: () => call('POST', ofModel(name, 'rollback'), { body: { position: row.position } }),
    });
    if (done) await changed(`Rolled back to ${called}.`);
  }

  async function take() {
    try {
      await call('POST', ofModel(name, 'snapshots'));
      await changed('Snapshot taken.');
    } catch (error) {
      replace(said, shown(error));
    }
  }

  return section('Snapshots', { signal, help: 'Stored states of the model. The server takes snapshots automatically and keeps the latest.' }, async (body) => {
    await look();
    replace(body, said, table, h('button', { type: 'button', onclick: take }, 'Take a snapshot'));
    setTimeout(() => repeat(LOOK_MS, () => look().catch(() => null), signal), LOOK_MS);
  });
}
