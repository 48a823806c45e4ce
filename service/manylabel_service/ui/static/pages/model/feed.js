/** What happens to a model, as it happens. */

import { h } from '../../core/dom.js';
import { count, counted } from '../../core/format.js';
import { section } from '../../core/section.js';

const MOST = 200;

export function feed(live) {
  const list = h('ol', { class: 'feed', 'aria-live': 'polite', 'aria-relevant': 'additions' });
  const learnt = h('p', { class: 'quiet' }, 'Nothing was learnt since this page was opened.');
  let first = live.status.updates;
  live.on(({ updates, position }) => {
    first = Math.min(first, updates);
    if (updates > first) learnt.textContent = `${counted(updates - first, 'example')} learnt since this page was opened; position ${position}.`;
  });
  live.onEvent((kind, data) => {
    const now = new Date();
    list.prepend(h('li', {}, h('time', { datetime: now.toISOString() }, now.toLocaleTimeString()), h('span', {}, told(kind, data))));
    while (list.children.length > MOST) list.lastChild.remove();
  });
  return section('What happens', { signal: live.signal, help: 'Drift alarms, new labels, rollbacks, promotions and versions that are held back, from now on.' },
    (body) => body.replaceChildren(learnt, h('div', { tabindex: 0, role: 'region', 'aria-label': 'Events' }, list)));
}

function told(kind, data) {
  switch (kind) {
    case 'drift': return [tag('drift', 'warn'), data.label === null ? ' over all labels' : ` of label ${data.label}`, `, at example ${count(data.updates)}`];
    case 'label': return [tag('label', ''), data.change === 'new' ? ` ${data.label} is new` : data.change === 'described' ? ` ${data.label} has a new description` : data.change === 'renamed' ? ` ${data.before} was renamed to ${data.label}` : data.change === 'merged' ? ` ${data.before} was merged into ${data.label}` : ` ${data.before ?? data.label} was ${data.change}`];
    case 'parity': return [tag('teacher', data.state === 'open' ? 'good' : 'warn'), data.state === 'open' ? ' sure examples are answered without the teacher' : ' the teacher labels all examples'];
    case 'rollback': return [tag('rollback', 'bad'), ` to position ${data.to}: ${counted(data.updates, 'example')} learnt`];
    case 'promoted': return [tag('promoted', 'good'), ` version ${data.version}${data.previous === null ? '' : `, instead of ${data.previous}`}`];
    case 'not_promoted': return [tag('held back', 'warn'), ` version ${data.version}: ${data.reason}`];
    case 'dropped': return [tag('gap', ''), data.count === null ? ' some events were missed' : ` ${count(data.count)} events were missed`];
    case 'refused': return [tag('error', 'bad'), ` ${data.detail}`];
    default: return kind;
  }
}

function tag(text, kind) {
  return h('span', { class: `tag ${kind}` }, text);
}
