/** The log of a job, as it is written. */

import { call } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { clock } from '../../core/format.js';
import { section } from '../../core/section.js';

const MOST_LINES = 1_000;

/** Return the section. */
export function log(live) {
  return section('Log', { signal: live.signal }, async (body) => {
    const list = h('ol', { class: 'feed', tabindex: 0, 'aria-label': 'Lines of the log' });
    const none = h('p', { class: 'empty' }, 'The job has written nothing yet.');
    let last = 0;
    const add = ({ n, time, text }) => {
      if (n <= last) return;
      last = n;
      none.hidden = true;
      const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
      list.append(h('li', {}, h('time', { datetime: time }, clock(time)), h('span', {}, text)));
      if (list.childElementCount > MOST_LINES) list.firstElementChild.remove();
      if (atEnd) list.scrollTop = list.scrollHeight;
    };
    const look = async () => (await call('GET', `${live.path}/log`, { signal: live.signal })).lines.forEach(add);
    await look();
    replace(body, none, list);
    live.on((job, kind, line) => {
      if (kind === 'log') add(line);
      else if (kind === 'state') look().catch(() => null);
    });
  });
}
