/** Keys: made, listed, changed and revoked. The key itself is shown once. */

import '../../parts/table.js';
import { call } from '../../core/api.js';
import { command, h, replace, shown } from '../../core/dom.js';
import { clock } from '../../core/format.js';
import { section } from '../../core/section.js';
import { ask } from '../../parts/dialog.js';
import { changeForm, forServer, newKeyForm } from './key_fields.js';

const COLOURS = { active: 'good', expired: 'warn', revoked: 'bad' };

/** Return the section. */
export function keys(signal) {
  return section('Keys', { signal, help: 'API keys and their permissions. A key allows the calls of its scopes, on the models that it names. The server stores only a hash of it.' }, async (body) => {
    const table = h('ml-table', { caption: 'Keys, the newest first' });
    const said = h('div', { 'aria-live': 'polite' });
    table.set([
      { key: 'called', title: 'Name', format: (_, { name, note }) => [name, note && h('div', { class: 'quiet' }, note)] },
      { key: 'id', title: 'Id', format: (id) => h('code', {}, id) },
      { key: 'state', title: 'State', format: (state) => h('span', { class: `tag ${COLOURS[state]}` }, state) },
      { key: 'for', title: 'Scopes' },
      { key: 'of', title: 'Models' },
      { key: 'limits', title: 'Rates', sortable: false },
      { key: 'created_at', title: 'Made', format: clock },
      { key: 'expires_at', title: 'Expires', format: (time) => (time === null ? 'never' : clock(time)) },
      { key: 'actions', title: 'Actions', sortable: false, format: (key) => actions(key) },
    ], [], { key: 'id', sort: 'created_at', descending: true, empty: 'No keys yet: anyone on this machine has access. Create the first key with the scope admin; this page will then ask for it.' });

    const look = async () => {
      const { keys: found } = await call('GET', 'v1/keys', { signal });
      table.update(found.map((key) => ({
        ...key, called: [key.name, key.note], for: key.scopes.join(', '), of: key.models.join(', '), limits: rates(key.rates), actions: key,
      })));
    };
    const changed = async (...content) => {
      replace(said, content);
      await look();
    };

    function actions(key) {
      if (key.state === 'revoked') return '';
      return h('span', { class: 'row' },
        h('button', { type: 'button', 'aria-label': `Change ${key.name}`, onclick: () => change(key) }, 'Change'),
        h('button', { type: 'button', class: 'danger', 'aria-label': `Revoke ${key.name}`, onclick: () => revoke(key) }, 'Revoke'));
    }

    async function change(key) {
      const form = changeForm(key);
      const done = await ask({
        title: `Change ${key.name}`, action: 'Change',
        text: [h('p', { class: 'quiet' }, 'To change scopes or models, create another key.'), form.element],
        run: () => submit(form, (value) => call('PATCH', `v1/keys/${encodeURIComponent(key.id)}`, { body: value })),
      });
      if (done) await changed(h('p', { class: 'good' }, `${key.name} is changed.`));
    }

    async function revoke(key) {
      const done = await ask({
        title: `Revoke ${key.name}?`, text: 'All servers reject the key within 1 s and its open streams end. This cannot be undone.',
        action: 'Revoke', danger: true, run: () => call('DELETE', `v1/keys/${encodeURIComponent(key.id)}`),
      });
      if (done) await changed(h('p', { class: 'good' }, `${key.name} is revoked.`));
    }

    const form = newKeyForm();
    const problem = h('div', {});
    const send = h('button', { type: 'submit' }, 'Make the key');
    const make = async (event) => {
      event.preventDefault();
      replace(problem);
      send.disabled = true;
      try {
        const key = await submit(form, (value) => call('POST', 'v1/keys', { body: value }));
        await changed(h('div', { class: 'panel' }, h('h3', {}, `The key of ${key.name}`),
          h('p', {}, 'Copy the key now; it will not be shown again.'), command(key.key))).catch(() => null);
        said.scrollIntoView({ block: 'nearest' });
      } catch (error) {
        replace(problem, shown(error));
      } finally {
        send.disabled = false;
      }
    };

    await look(); // once: that keys are listed is a line of the audit
    replace(body, said, table, h('details', {}, h('summary', {}, 'Make a key'),
      h('form', { novalidate: true, onsubmit: make }, form.element, problem, h('p', {}, send))));
  });
}

/** Send what a form has; errors are shown at its fields, those that none is for are thrown. */
async function submit(form, send) {
  form.clear();
  if (!form.check()) throw new Error('Correct the highlighted fields.');
  try {
    return await send(forServer(form.value()));
  } catch (error) {
    if (error.errors) error.errors = form.show(error);
    throw error;
  }
}

function rates({ requests_per_second: requests, examples_per_second: examples, max_concurrent_requests: atATime }) {
  return [
    requests !== null && `${requests} requests/s`, examples !== null && `${examples} examples/s`, atATime !== null && `${atATime} at a time`,
  ].filter(Boolean).join(', ') || 'none';
}
