/** The audit of the server that answers: who changed or exported what, and what was refused. */

import '../../parts/table.js';
import { call } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { clock } from '../../core/format.js';
import { section } from '../../core/section.js';

const AT_ONCE = 100;

/** Return the section. */
export function audit(signal) {
  return section('Audit', { signal, help: 'Calls that changed or exported something, and calls refused because they had no valid key or no scope, on the server that handles the request.' }, async (body) => {
    const table = h('ml-table', { caption: 'Calls, the newest first' });
    const problem = h('div', {});
    table.set([
      { key: 'time', title: 'Time', format: clock },
      { key: 'key_id', title: 'Key', format: (id) => (id === null ? 'none' : h('code', {}, id)) },
      { key: 'call', title: 'Call', format: (text) => h('code', {}, text) },
      { key: 'about', title: 'About' },
      { key: 'status', title: 'Status', numeric: true, format: (status, { code }) => h('span', { class: status >= 400 ? 'bad' : null, title: code }, [String(status), code && ` ${code}`]) },
      { key: 'address', title: 'From' },
      { key: 'position', title: 'Position' },
    ], [], { key: 'request_id', sort: 'time', descending: true, empty: 'No call is listed.' });
    const more = h('button', { type: 'button', hidden: true, onclick: () => ask(before).catch((error) => replace(problem, shown(error))) }, 'Older calls');
    const model = h('input', { id: 'audit-model', autocomplete: 'off' });
    const key = h('input', { id: 'audit-key', autocomplete: 'off' });
    let calls = [];
    let before = null;

    async function ask(from) {
      replace(problem);
      const query = { limit: AT_ONCE, before: from, model: model.value.trim() || null, key: key.value.trim() || null };
      const page = await call('GET', 'v1/audit', { query, signal });
      calls = [...(from ? calls : []), ...page.calls];
      before = page.before;
      more.hidden = before === null;
      table.update(calls.map((each) => ({
        ...each, call: `${each.method} ${each.route ?? '?'}`, about: [each.model, each.dataset, each.target].filter((name) => name !== null).join(', '),
      })));
    }

    const form = h('form', { onsubmit: (event) => { event.preventDefault(); ask(null).catch((error) => replace(problem, shown(error))); } },
      h('p', { class: 'row' }, h('label', { for: 'audit-model' }, 'Model'), model, h('label', { for: 'audit-key' }, 'Id of a key'), key, h('button', { type: 'submit' }, 'Show')));
    try {
      await ask(null);
    } catch (error) {
      if (error.code !== 'audit_not_kept') throw error;
      replace(body, h('p', { class: 'empty' }, 'This server has no audit file: the audit log is off, or goes to standard output. ',
        'Set audit_file to have one.'));
      return;
    }
    replace(body, form, problem, table, more);
  });
}
