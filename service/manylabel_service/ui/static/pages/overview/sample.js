/** A sample: made-up messages to a help desk, streamed to a separate model, which learns their topics. */

import { call, ofModel } from '../../core/api.js';
import { bar } from '../../core/top.js';
import { h, link, replace, route } from '../../core/dom.js';

/** The model that the sample goes to. */
export const SAMPLE = 'sample-helpdesk';

const MOST = 5_000; // examples, then it ends by itself
const BATCH = 10;
const PAUSE_MS = 200;
const KEPT_EVERY = 500;
const KEPT = 5; // messages that wait for labels then, to be tried and labelled
const WINDOW = 300;
const SLIPS = 0.08; // share of the messages that are given a topic too many

const TOPICS = {
  billing: ['I was charged twice', 'the invoice shows the wrong amount', 'my card was declined', 'please refund the payment', 'the price on the bill is not the one I agreed to'],
  delivery: ['the parcel has not arrived', 'tracking has not moved for days', 'the courier left it at the wrong door', 'when will my order ship', 'the box came open'],
  returns: ['I would like to send it back', 'how do I return this', 'it does not fit and I want another size', 'please exchange it', 'the return label does not print'],
  account: ['I cannot log in', 'the password reset mail never comes', 'please change my address', 'my account is locked', 'two-factor codes are refused'],
  defect: ['the screen stays black', 'it stopped working after a week', 'a part is broken', 'it makes a loud noise', 'the battery does not charge'],
  praise: ['thank you, that was quick', 'great service', 'I am very happy with it', 'your team was a great help', 'works like a charm'],
};
const FRAMES = ['Hello,', 'Hi there,', 'Good morning,', 'Dear team,', 'Hey,', ''];
const ENDS = ['Thanks.', 'Regards, Ada', 'Please answer soon.', 'Cheers, Lin', 'Best, Noor', ''];
const JOINTS = ['Also,', 'Besides,', 'And another thing:', 'By the way,'];
const ALONG = { delivery: 'returns', defect: 'returns', billing: 'account' }; // topics that often come together

let running = null;
const places = new Set();

/** Return a button that starts the sample, or stops it; it shows the running sample when displayed again. */
export function sampleButton() {
  const place = h('span', {});
  places.add(place);
  drawButton(place);
  return place;
}

function drawButton(place) {
  replace(place, running
    ? h('button', { type: 'button', onclick: stop }, 'Stop the sample')
    : h('button', { type: 'button', class: 'primary', onclick: start }, 'Stream a sample'));
}

function drawAll() {
  for (const place of places) {
    if (place.isConnected) drawButton(place);
    else places.delete(place);
  }
}

/** Stop the sample. */
export function stop() {
  running?.abort();
}

/** Create the model, if it is not there, and stream to it until it is stopped. */
export async function start() {
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  const said = h('span', {}, 'A sample begins. ');
  const away = bar('info', said, link(route('models', SAMPLE), 'Watch it learn'), ' ', h('button', { type: 'button', onclick: stop }, 'Stop the sample'));
  drawAll();
  let sent = 0;
  let why = 'was stopped';
  try {
    await create(signal);
    for (; sent < MOST; sent += BATCH) {
      if (sent > 0) replace(said, `A sample is streamed to ${SAMPLE}: ${sent} examples so far. `);
      const body = { examples: Array.from({ length: BATCH }, message) };
      await call('POST', ofModel(SAMPLE, 'predict-update'), { body, signal, headers: { 'Idempotency-Key': crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` } });
      if (sent % KEPT_EVERY === 0) {
        const kept = { examples: Array.from({ length: KEPT }, () => ({ x: message().x })) };
        await call('POST', ofModel(SAMPLE, 'predict'), { body: kept, query: { keep: 'record' }, signal }).catch(() => {}); // it may be full
      }
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
      if (signal.aborted) break;
    }
    if (sent >= MOST) why = 'came to its end';
  } catch (error) {
    if (!signal.aborted) why = `ended: ${error.detail ?? error.message}`;
  }
  running = null;
  away();
  drawAll();
  const dismiss = bar('info', `The sample ${why} after ${sent} examples. `, link(route('models', SAMPLE), 'See the model'), ' ',
    h('button', { type: 'button', onclick: () => dismiss() }, 'Dismiss'));
}

async function create(signal) {
  const body = { name: SAMPLE, algorithm: 'falt', params: { drift: 'adwin' }, window: WINDOW };
  try {
    await call('POST', 'v1/models', { body, signal });
  } catch (error) {
    if (error.code !== 'model_exists') throw error;
  }
}

/** Return a message and its topics; those who tag are not always right. */
export function message() {
  const topics = Object.keys(TOPICS);
  const first = pick(topics);
  const second = Math.random() < 0.3 ? pick(topics) : Math.random() < 0.3 ? ALONG[first] : undefined;
  const y = second && second !== first ? [first, second] : [first];
  const told = y.map((topic) => `${pick(TOPICS[topic])}.`);
  const slip = Math.random() < SLIPS ? pick(topics) : first;
  if (!y.includes(slip)) y.push(slip);
  return { x: [pick(FRAMES), told.join(` ${pick(JOINTS)} `), pick(ENDS)].join(' ').trim(), y };
}

function pick(list) {
  return list[Math.floor(Math.random() * list.length)];
}
