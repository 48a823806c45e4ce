/** Learnt examples with doubtful labels, one after another: a person corrects or confirms the labels. */

import { call, ofModel } from '../../core/api.js';
import { h, replace } from '../../core/dom.js';
import { count, counted, value } from '../../core/format.js';
import { section } from '../../core/section.js';
import { labelPicker } from '../../parts/labels.js';
import { Turns } from '../label/turns.js';

const MOST = 1_000;
const KINDS = {
  missing: ['Labels that may be missing', 'These labels were not given, but are more probable than not. Most of the first ones are truly missing.'],
  wrong: ['Labels that may be wrong', 'These labels were given, but are less probable than not. More than half of them are right, even among the first ones: read each example before you change it.'],
};

/** Return a section that lists how many doubts there are, and asks about them. */
export function checking(name, signal) {
  let turns = null;
  return section('Doubtful labels of learnt examples', { signal, help: 'The rest of the stream contradicts these labels. Corrections improve the data. They hardly change the quality of the model.' }, async (body) => {
    let missing;
    let wrong;
    try {
      [missing, wrong] = await Promise.all(Object.keys(KINDS).map((kind) => list(name, kind, signal)));
    } catch (problem) {
      if (problem.code !== 'doubts_not_found') throw problem;
      replace(body, h('p', { class: 'empty' }, 'No search has ended yet.'));
      return;
    }
    const place = h('div', {});
    const begin = async (kind) => {
      if (!turns) turns = new Checking(name, signal);
      replace(place, turns.element);
      await turns.of(kind);
      if (!signal.aborted) turns.place.querySelector('h2')?.focus();
    };
    const { left_out: left, examined } = missing;
    replace(body,
      h('p', { class: 'quiet' }, `${counted(examined, 'example')} examined. Not judged: ${counted(left.too_rare, 'label')} with too few examples, ${counted(left.not_human, 'example')} whose labels are not from people.`),
      h('div', { class: 'row' }, [missing, wrong].map(({ kind, doubts }) =>
        h('button', { type: 'button', disabled: doubts.length === 0, onclick: () => begin(kind) }, `${KINDS[kind][0]}: ${count(doubts.length)}`))),
      place);
  });
}

/** Return the newest list of a kind without its end, whose labels a model predicts as they were given. */
async function list(name, kind, signal) {
  const found = await call('GET', ofModel(name, 'doubts'), { query: { kind, top: MOST }, signal });
  const isDoubtful = kind === 'missing' ? ({ score }) => score > 0 : ({ probability }) => probability < 0.5;
  return { ...found, kind, doubts: found.doubts.filter(isDoubtful) };
}

class Checking extends Turns {
  constructor(name, signal) {
    super(signal);
    Object.assign(this, { name, kind: null, sentTitle: 'Checked here' });
    this.note = h('p', {});
    this.element = h('div', { class: 'label' }, this.note, this.parts);
  }

  /** Ask about the doubts of a kind. */
  async of(kind) {
    await this.outbox.sendAll();
    this.kind = kind;
    this.queue = [];
    this.current = null;
    this.done.clear();
    replace(this.note, KINDS[kind][1]);
    await this.start();
  }

  /** The doubts of one example are one item. */
  async more() {
    const items = new Map();
    for (const doubt of (await list(this.name, this.kind, this.signal)).doubts) {
      const id = `${doubt.position}/${doubt.index}`;
      if (!items.has(id)) items.set(id, { id, position: doubt.position, index: doubt.index, ref: doubt.ref, doubts: [] });
      items.get(id).doubts.push(doubt);
    }
    return { items: [...items.values()], waiting: items.size };
  }

  picker({ doubts }, chosen) {
    const likely = doubts.map(({ label, probability }) => ({ name: label, text: value(probability) }));
    const given = doubts.filter((doubt) => doubt.given).map(({ label }) => label);
    return labelPicker({ legend: 'Labels in doubt', known: [], likely, picked: chosen ?? given, keys: true, note: 'Another label of this model that the example has. Its other labels stay as they are.' });
  }

  question({ position, index, ref, doubts }) {
    return [
      h('h2', { tabindex: -1 }, 'Which of these labels does this example have?'),
      ref === null ? h('p', { class: 'empty' }, 'The example was sent without a ', h('code', {}, 'ref'), '. It is example ', h('code', {}, String(index)), ' of the entry at position ', h('code', {}, position), ' of the log.')
        : h('p', { class: 'ml-record' }, ref),
      doubts.map((doubt) => h('p', { class: 'quiet' }, evidence(doubt))),
      h('p', { class: 'quiet' }, 'Ticked is what the example was learnt with. Change it if it is wrong; send it as it is to confirm it.'),
    ];
  }

  empty() {
    return [h('h2', { tabindex: -1 }, 'No doubts are left'),
      h('p', {}, 'A new search may find others. Labels that you confirmed are not listed again.'),
      h('p', {}, h('button', { type: 'button', onclick: () => this.again() }, 'Look again'))];
  }

  words({ item, y }) {
    return `${item.ref ?? item.id}: ${y.join(', ') || `without ${item.doubts.map(({ label }) => label).join(', ')}`}`;
  }

  /** The labels in doubt, and others that were added; all other labels of the example stay. */
  request({ item: { id, position, index, doubts }, y }) {
    const names = new Set([...doubts.map(({ label }) => label), ...y]);
    const checked = Object.fromEntries([...names].map((label) => [label, y.includes(label)]));
    return { path: ofModel(this.name, 'correct'), body: { position, index, y: checked }, headers: {} };
  }
}

/** Return why a label is doubted, as a sentence. */
function evidence({ label, given, probability, share, neighbours, similar, for: features, existed }) {
  const places = similar.map(({ ref, position, index }) => ref ?? `${position}/${index}`);
  return [
    h('strong', {}, label), given ? ' was given. ' : existed ? ' was not given. ' : ' did not exist when the example was learnt. ',
    'A model that has not learnt this example gives it the probability ', value(probability), '; ', percent(share), ' of all examples have it, and ',
    percent(neighbours), ' of the ten most similar ones.',
    features.length > 0 && ` ${given ? 'Against' : 'For'} it: ${features.map(({ feature }) => feature).join(', ')}.`,
    places.length > 0 && ` Similar, ${given ? 'without' : 'with'} it: ${places.join(', ')}.`,
  ];
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}
