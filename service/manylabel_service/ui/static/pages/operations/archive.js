/** States to take along: a model downloaded as a snapshot, and a model made of one. */

import { address, call, latestModels, ofModel, Problem } from '../../core/api.js';
import { command, h, link, replace, route, shown } from '../../core/dom.js';
import { bytes } from '../../core/format.js';
import { section } from '../../core/section.js';
import { key } from '../../core/session.js';

/** Return the section. */
export function archive(signal) {
  return section('Archive', { signal, help: 'The state of a model as a file: a backup, or the start of a model with another name or on another server.' }, async (body) => {
    const models = await latestModels(signal);
    const online = models.filter(({ algorithm }) => algorithm !== 'trained').map(({ name }) => name);
    const said = h('div', { 'aria-live': 'polite' });
    const attempt = (run) => async (event) => {
      event.preventDefault();
      const button = event.target.querySelector('button');
      button.disabled = true;
      replace(said);
      try {
        replace(said, await run());
      } catch (error) {
        if (!signal.aborted) replace(said, shown(error));
      } finally {
        button.disabled = false;
      }
    };

    const model = h('select', { id: 'archive-model' }, online.map((name) => h('option', {}, name)));
    const download = attempt(async () => {
      const { position } = await call('POST', ofModel(model.value, 'snapshots'));
      const file = await (await ask('GET', ofModel(model.value, 'snapshots', position))).blob();
      const to = h('a', { href: URL.createObjectURL(file), download: `${model.value}-${position}.snapshot` });
      to.click();
      setTimeout(() => URL.revokeObjectURL(to.href), 60_000);
      return h('p', { class: 'good' }, `Downloaded ${model.value} at position ${position}, ${bytes(file.size)}. The snapshot is in the list of the model until newer ones replace it.`);
    });

    const file = h('input', { id: 'archive-file', type: 'file', required: true });
    const named = h('input', { id: 'archive-name', required: true, autocomplete: 'off' });
    const upload = attempt(async () => {
      await ask('PUT', ofModel(named.value), file.files[0], 'application/octet-stream');
      const made = named.value;
      return h('p', { class: 'good' }, 'Made ', link(route('models', made), made), ' of the snapshot.');
    });

    replace(body,
      online.length > 0
        ? h('form', { onsubmit: download }, h('p', { class: 'row' }, h('label', { for: 'archive-model' }, 'Model'), model, h('button', { type: 'submit' }, 'Download its state')))
        : h('p', { class: 'empty' }, 'No online model yet.'),
      h('form', { onsubmit: upload }, h('p', { class: 'row' }, h('label', { for: 'archive-file' }, 'Snapshot'), file,
        h('label', { for: 'archive-name' }, 'New model'), named, h('button', { type: 'submit' }, 'Make a model of it'))),
      said,
      h('p', { class: 'quiet' }, 'To back up the whole store (logs, versions, datasets), set archive, or run beside the store:'),
      command('manylabel backup --to file:///mnt/backup'));
  });
}

/** Ask the server for bytes, or send it some. */
async function ask(method, path, body, type) {
  const answer = await fetch(address(path), {
    method, body, cache: 'no-store', headers: { ...(key() ? { Authorization: `Bearer ${key()}` } : {}), ...(type ? { 'Content-Type': type } : {}) },
  });
  if (!answer.ok) throw new Problem({ status: answer.status, title: answer.statusText, ...(await answer.json().catch(() => ({}))) });
  return answer;
}
