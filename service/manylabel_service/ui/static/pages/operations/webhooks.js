/** Webhooks: listed, tested, enabled and deleted, with the latest deliveries of each. */

import '../../parts/table.js';
import { call } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { clock } from '../../core/format.js';
import { section } from '../../core/section.js';
import { ask } from '../../parts/dialog.js';

/** Return the section. */
export function webhooks(signal) {
  return section('Webhooks', { signal, help: 'Events that the server posts to other servers. Create one with: manylabel webhooks create ADDRESS --event drift' }, async (body) => {
    const table = h('ml-table', { caption: 'Webhooks, the oldest first' });
    const deliveries = h('ml-table', { caption: 'Latest deliveries', hidden: true });
    const said = h('div', { 'aria-live': 'polite' });
    table.set([
      { key: 'url', title: 'Address' },
      { key: 'what', title: 'Events' },
      { key: 'of', title: 'Models' },
      { key: 'state', title: 'State', format: (state, { reason }) => h('span', { class: state === 'active' ? 'tag good' : 'tag bad', title: reason }, state) },
      { key: 'waiting', title: 'Waiting', numeric: true },
      { key: 'dropped', title: 'Dropped', numeric: true },
      { key: 'delivered', title: 'Delivered', numeric: true },
      { key: 'actions', title: 'Actions', sortable: false, format: (webhook) => actions(webhook) },
    ], [], { key: 'id', empty: 'No webhooks.' });
    deliveries.set([
      { key: 'time', title: 'Time', format: clock },
      { key: 'type', title: 'Event' },
      { key: 'event', title: 'Id', format: (id) => h('code', {}, id) },
      { key: 'attempt', title: 'Attempt', numeric: true },
      { key: 'outcome', title: 'Outcome', format: (text, { error }) => h('span', { class: error === null ? 'good' : 'bad' }, text) },
      { key: 'milliseconds', title: 'ms', numeric: true },
    ], [], { key: 'key', sort: 'time', descending: true, empty: 'Nothing was sent yet.' });

    const look = async () => {
      const { webhooks: found } = await call('GET', 'v1/webhooks', { signal });
      table.update(found.map((each) => ({ ...each, what: each.events.join(', '), of: each.models.join(', '), actions: each })));
    };
    const run = async (work) => {
      try {
        replace(said, await work());
        await look();
      } catch (error) {
        replace(said, shown(error));
      }
    };

    function actions(webhook) {
      const about = `the webhook of ${webhook.url}`;
      return h('span', { class: 'row' },
        h('button', { type: 'button', 'aria-label': `Deliveries of ${about}`, onclick: () => run(() => show(webhook)) }, 'Deliveries'),
        h('button', { type: 'button', 'aria-label': `Test ${about}`, onclick: () => run(() => test(webhook)) }, 'Test'),
        webhook.state === 'disabled' && h('button', { type: 'button', 'aria-label': `Enable ${about}`, onclick: () => run(() => enable(webhook)) }, 'Enable'),
        h('button', { type: 'button', class: 'danger', 'aria-label': `Delete ${about}`, onclick: () => run(() => remove(webhook)) }, 'Delete'));
    }

    const at = (webhook, action = '') => `v1/webhooks/${encodeURIComponent(webhook.id)}${action}`;

    async function show(webhook) {
      const found = await call('GET', at(webhook), { signal });
      deliveries.update(found.deliveries.map((each) => ({ ...each, key: `${each.event} ${each.time} ${each.attempt}`, outcome: outcome(each) })));
      deliveries.hidden = false;
      return h('p', {}, `Deliveries to ${webhook.url} are below.`);
    }

    async function test(webhook) {
      const found = await call('POST', at(webhook, '/test'));
      return h('p', { class: found.error === null ? 'good' : 'bad' }, `Test event: ${outcome(found)}, ${found.milliseconds} ms.`);
    }

    async function enable(webhook) {
      await call('POST', at(webhook, '/enable'));
      return h('p', { class: 'good' }, 'The webhook is enabled.');
    }

    async function remove(webhook) {
      const done = await ask({
        title: 'Delete the webhook?', text: `Events that wait for ${webhook.url} are deleted with it.`,
        action: 'Delete', danger: true, run: () => call('DELETE', at(webhook)),
      });
      return done ? h('p', { class: 'good' }, 'The webhook is deleted.') : null;
    }

    await look();
    replace(body, said, table, deliveries);
  });
}

function outcome({ error, status }) {
  if (error === null) return `delivered (${status})`;
  return status === null ? error : `status ${status}`;
}
