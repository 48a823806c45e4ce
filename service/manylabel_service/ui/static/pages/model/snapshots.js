/** Stored states of a model: take one, go back to one, let one go. */

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
    table.update(found.map((each) => ({ ...each, actions: each.manual })));
  };
  table.set([
    { key: 'created', title: 'Taken', format: (time, row) => h('span', { title: `position ${row.position}` }, clock(time)) },
    { key: 'name', title: 'Name', format: (text, { note, manual, pinned }) => [
      text ?? '', text ? ' ' : '', manual && h('span', { class: 'tag good', title: 'stays until it is deleted' }, 'manual'), ' ',
      pinned && h('span', { class: 'tag', title: 'a rollback in the log needs it' }, 'pinned'), note && h('div', { class: 'quiet' }, note)] },
    { key: 'bytes', title: 'Size', numeric: true, format: (size) => h('span', { title: `${size} bytes` }, bytes(size)) },
    { key: 'actions', title: 'Actions', sortable: false, format: (_, row) => actions(row) },
  ], [], { key: 'position', empty: 'No snapshot yet: the server takes one after some minutes of learning.' });

  function actions(row) {
    const called = row.name ?? `the one of ${clock(row.created)}`;
    return h('span', { class: 'row' },
      h('button', { type: 'button', onclick: () => rollback(row, called), 'aria-label': `Roll back to ${called}` }, 'Roll back'),
      row.manual && h('button', { type: 'button', class: 'danger', onclick: () => remove(row, called), 'aria-label': `Delete ${called}` }, 'Delete'));
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

  async function remove(row, called) {
    const done = await ask({
      title: `Delete the snapshot ${called}?`, text: 'The model could not be rolled back to it any more, unless the server keeps it for itself.',
      action: 'Delete', danger: true,
      run: () => call('DELETE', ofModel(name, 'snapshots', row.position)),
    });
    if (done) await changed(`Deleted ${called}.`);
  }

  const named = h('input', { id: 'snapshot-name', autocomplete: 'off', placeholder: 'before-cleanup' });
  const noted = h('input', { id: 'snapshot-note', autocomplete: 'off' });
  const form = h('form', { class: 'row', onsubmit: take },
    h('label', { for: 'snapshot-name' }, 'Name'), named, h('label', { for: 'snapshot-note' }, 'Note'), noted,
    h('button', { type: 'submit' }, 'Keep a snapshot'));

  async function take(event) {
    event.preventDefault();
    try {
      const taken = await call('POST', ofModel(name, 'snapshots'), { body: { name: named.value || null, note: noted.value || null } });
      form.reset();
      await changed(`Kept as ${taken.name ?? taken.position}; it stays until it is deleted.`);
    } catch (error) {
      replace(said, shown(error));
    }
  }

  return section('Snapshots', { signal, help: 'Stored states of the model. The server takes snapshots automatically and keeps the latest; manual snapshots stay until they are deleted.' }, async (body) => {
    await look();
    replace(body, said, table, form);
    setTimeout(() => repeat(LOOK_MS, () => look().catch(() => null), signal), LOOK_MS);
  });
}
