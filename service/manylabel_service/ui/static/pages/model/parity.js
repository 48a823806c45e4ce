/** The promise of parity of a model with a teacher, and its account: who answered, and what audits found. */

import '../../parts/bars.js';
import '../../parts/table.js';
import { call, ofModel } from '../../core/api.js';
import { h, replace, shown } from '../../core/dom.js';
import { count } from '../../core/format.js';
import { facts, repeat, section } from '../../core/section.js';

const LOOK_MS = 4_000;
const HELP = 'Stored predictions say when to ask a teacher, such as a language model. In the long run at most the rest to the promised share of '
  + 'the answers given without it differ from the teacher’s, as estimated by random audits. Only labels of the teacher count.';
const STATES = { learning: 'learning: the teacher labels all examples', open: 'open', closed: 'closed: audits disagreed too often' };
const LABELS = [
  { key: 'label', title: 'Label' },
  { key: 'added', title: 'Only the model', numeric: true, format: count },
  { key: 'missed', title: 'Only the teacher', numeric: true, format: count },
];

/** Return the fields of the status of a model that promise one thing, or null. */
export function promised(promise, ...fields) {
  if (promise?.[fields[0]] === undefined) return null;
  return Object.fromEntries([...fields, 'audit_rate'].map((field) => [field, promise[field]]));
}

export function parity(live) {
  const { name, signal } = live;
  const account = h('div', { role: 'status' });
  const bar = h('ml-bars', { heading: 'Disagreements of sure examples', 'name-title': 'Number', 'value-title': 'Number' });
  const labels = h('ml-table', { caption: 'Labels that differ in audits, most often first' });
  labels.set(LABELS, [], { key: 'label', empty: 'No audit has differed yet.' });
  const price = h('input', { id: 'price', type: 'number', min: 0, step: 'any', value: 1, oninput: () => seen && show(seen.account) });
  const saved = h('output', { for: 'price' });
  const parts = h('div', {}, account,
    h('p', { class: 'row' }, h('label', { for: 'price' }, 'Price of 1,000 calls'), price, saved),
    h('div', { class: 'grid' }, bar, labels));
  let seen = null;

  async function look() {
    if (seen?.position === live.status.position) return;
    const { promise, position } = await call('GET', ofModel(name, 'metrics'), { signal });
    seen = { position, account: promise?.parity };
    parts.hidden = end.hidden = !seen.account;
    if (seen.account) show(seen.account);
  }

  function show(found) {
    replace(account, facts([
      ['Promised', percent(found.parity), h('small', {}, ` ${found.agreement === 'exact' ? 'equal label sets' : 'mean F1'}, with labels of ${found.of}`)],
      ['Teacher', STATES[found.state], h('small', {}, ` gets ${percent(found.audit_rate_now)} of sure examples; opened ${count(found.openings)} times`)],
      ['Answered', count(found.answered), h('small', {}, found.calls_saved === null ? '' : ` ${percent(found.calls_saved)} of all; asked ${count(found.asked)}`)],
      ['Without a label', found.empty_share === null ? '–' : percent(found.empty_share), h('small', {}, ' of these answers')],
      ['Audits', count(found.audits), h('small', {}, ` ${count(found.audits_waiting)} waiting, ${count(found.audits_without_answer)} without an answer`)],
      ['Estimated wrong', `${number(found.estimated_wrong)} ± ${number(found.spread)}`, h('small', {}, ` allowed ${number(found.allowed)}`)],
      ['Found by people', wrong('model', found.people), h('small', {}, ` ${wrong('teacher', found.people)}`)],
      ['Right in drawn checks', found.people.checked === 0 ? '–' : percent(found.people.right_share),
        h('small', {}, ` ${percent(found.people.right_low)} to ${percent(found.people.right_high)}, of ${count(found.people.checked)}`)],
    ]));
    replace(saved, ` saved: ${number(found.answered * Number(price.value) / 1000)}`);
    bar.setAttribute('max', Math.max(1, 2 * found.allowed));
    bar.set([{ name: 'estimated', value: found.estimated_wrong, text: number(found.estimated_wrong), mark: found.allowed }]);
    labels.update(found.labels);
  }

  const said = h('div', { class: 'said', role: 'status' });
  const wanted = h('input', { id: 'promise-parity', type: 'number', min: 0.01, max: 0.999, step: 0.001, required: true, value: live.status.promise?.parity ?? 0.95 });
  const end = h('button', { type: 'button', hidden: true, onclick: () => set(null) }, 'End the promise');
  const form = h('form', { class: 'row', onsubmit: (event) => { event.preventDefault(); set(Number(wanted.value)); } },
    h('label', { for: 'promise-parity' }, 'Parity'), wanted, h('button', { type: 'submit' }, 'Promise'), end);

  async function set(share) {
    const other = promised(live.status.promise, 'precision', 'settled', 'missed');
    const own = share === null ? null : { ...promised(live.status.promise, 'parity', 'of', 'agreement'), parity: share };
    try {
      await call('PUT', ofModel(name, 'promise'), { body: own || other ? { ...other, ...own } : null });
      replace(said, h('p', { class: 'good' }, share === null ? 'No parity is promised from here on.' : `Promised from here on: ${percent(share)}.`));
      await live.look();
      await look();
    } catch (error) {
      replace(said, shown(error));
    }
  }

  return section('In front of a teacher', { signal, help: HELP, class: 'parity' }, async (body) => {
    if (live.status.params.calibrate === false) {
      replace(body, h('p', { class: 'empty' }, 'This model has no probabilities, so it cannot promise parity: it was created with calibrate=false.'));
      return;
    }
    await look();
    replace(body, said, parts, form);
    setTimeout(() => repeat(LOOK_MS, () => look().catch(() => null), signal), LOOK_MS);
  });
}

function wrong(who, people) {
  const n = people[`${who}_wrong`];
  return `${who} wrong ${count(n)} of ${count(n + people[`${who}_right`])}`;
}

function percent(share) {
  return `${Number((100 * share).toFixed(1))} %`;
}

function number(value) {
  return String(Number(value.toPrecision(3)));
}
