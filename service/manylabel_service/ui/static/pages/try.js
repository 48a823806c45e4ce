/** Try it: what a model says of an example, why, and how it is taught better. */

import { call, ofModel } from '../core/api.js';
import { h, link, replace, route, shown } from '../core/dom.js';
import { counted, value } from '../core/format.js';
import { labelPicker } from '../parts/labels.js';
import { answerView, predict, ranked, whyView } from './try/answer.js';
import { exampleEditor } from './try/example.js';
import { remember, startOf } from './try/start.js';

const MAX_LABELS = 1000;

export function title({ name }) {
  return name;
}

export async function render({ name }, { signal }) {
  const [status, labels] = await Promise.all([
    call('GET', ofModel(name), { signal }),
    call('GET', ofModel(name, 'labels'), { query: { limit: MAX_LABELS }, signal }),
  ].map((each) => each.catch((problem) => {
    if (problem.status === 403 || problem.code === 'no_version_served') return null; // a key that only predicts can still try
    throw problem;
  })));
  return new Trying(name, status ?? {}, labels?.labels ?? [], await startOf(name, status ?? {}, signal), signal).element;
}

class Trying {
  constructor(name, status, labels, start, signal) {
    Object.assign(this, { name, status, start, signal });
    this.isTrained = status.algorithm === 'trained';
    this.labels = labels.filter(({ retired, paused }) => !retired && !paused);
    this.thresholds = new Map(this.labels.map(({ label, threshold }) => [label, threshold]));
    this.keptId = start.id;
    this.editor = exampleEditor(start.x, status.text !== null || this.isTrained === false, () => { this.keptId = null; });
    this.problem = h('div');
    this.answer = h('div', {}, h('p', { class: 'empty' }, 'Predict to see the labels and their probabilities here.'));
    this.why = h('div');
    this.teaching = h('div');
    this.button = h('button', { type: 'submit', class: 'primary' }, 'Predict');
    this.whySection = h('section', { hidden: true }, h('h2', {}, 'Why'), this.why);
    this.teachSection = h('section', { hidden: true }, h('h2', {}, this.isTrained ? 'Tell the truth' : 'Teach it'), this.teaching);
    this.element = h('div', { class: 'try' },
      h('section', {}, h('h2', {}, 'An example'), h('p', { class: 'quiet' }, start.from),
        h('form', { onsubmit: (event) => { event.preventDefault(); this.ask(); } },
          this.editor.element, this.problem, h('div', { class: 'row' }, this.button, this.others()))),
      h('section', {}, h('h2', {}, 'What the model says'), this.answer), this.whySection, this.teachSection);
    if (!start.isEmpty) this.ask();
  }

  /** Other examples that the server has, or how it gets some. */
  others() {
    if (this.start.kept.length > 1) {
      let at = 0;
      return h('button', { type: 'button', onclick: () => {
        at = (at + 1) % this.start.kept.length;
        this.editor.set(this.start.kept[at].record);
        this.keptId = this.start.kept[at].id;
        this.ask();
      } }, 'Another kept example');
    }
    return null;
  }

  async ask(at = null) {
    replace(this.problem);
    let x;
    try {
      x = this.editor.value();
    } catch {
      return;
    }
    this.button.disabled = true;
    try {
      const answer = await predict(this.name, x, { at, signal: this.signal });
      remember(this.name, x);
      this.x = x;
      this.said = answer;
      replace(this.answer, answerView(answer, this.thresholds));
      replace(this.why, whyView(answer, x));
      this.whySection.hidden = this.teachSection.hidden = false;
      if (at === null) this.offerTeaching();
    } catch (problem) {
      if (this.signal.aborted) return;
      replace(this.problem, shown(problem));
    } finally {
      this.button.disabled = false;
    }
  }

  // -- teaching --------------------------------------------------------------------------------

  offerTeaching() {
    const likely = ranked(this.said).map(({ name }) => ({ name })); // their probabilities stand above
    const picker = labelPicker({
      legend: 'Which labels are right?', known: this.labels.map(({ label }) => label), likely, picked: this.said.labels,
      ...(this.isTrained ? { note: 'A label that the model does not have counts as missed.' } : {}),
    });
    const problem = h('div');
    const button = h('button', { type: 'submit', class: 'primary' }, this.isTrained ? 'Count it' : 'Teach these labels');
    const send = async (event) => {
      event.preventDefault();
      replace(problem);
      button.disabled = true;
      try {
        await (this.isTrained ? this.count(picker.value()) : this.teach(picker.value()));
      } catch (error) {
        if (!this.signal.aborted) replace(problem, shown(error));
      } finally {
        button.disabled = false;
      }
    };
    this.outcome = h('div', { role: 'status' });
    replace(this.teaching,
      h('p', {}, this.isTrained
        ? ['A trained model does not learn from single examples: its answer is counted in ', link(route('models', this.name), 'its measures'),
          ' by the labels that you tick. To have it learn, ', link('#/jobs/new', 'order another training'), ', or teach the online model whose stream it was trained on.']
        : 'Select the labels of this example; all others count as false. The model learns it immediately.'),
      h('form', { onsubmit: send }, picker.element, problem, button), this.outcome);
  }

  /** Have an online model learn the example, and show what it says then. */
  async teach(y) {
    const before = this.said;
    const kept = this.keptId;
    const learnt = kept
      ? await call('POST', ofModel(this.name, 'labels'), { body: { id: kept, y }, signal: this.signal })
      : await call('POST', ofModel(this.name, 'update'), { body: { x: this.x, y }, signal: this.signal });
    this.keptId = null; // its labels are told
    this.start.kept = this.start.kept.filter(({ id }) => id !== kept);
    await this.ask(learnt.position);
    const changed = [...new Set([...y, ...before.labels, ...this.said.labels])];
    const said = (answer, label) => value((answer.probabilities ?? answer.scores)[label]);
    replace(this.outcome,
      h('p', {}, h('strong', { class: 'good' }, 'Learnt.'), ` The model has learnt ${counted(learnt.updates, 'example')}. Its prediction for this example now:`),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Before and after' }, h('table', {},
        h('thead', {}, h('tr', {}, ['Label', 'Before', 'After', 'Predicted now'].map((each, i) => h('th', { scope: 'col', class: i === 1 || i === 2 ? 'number' : null }, each)))),
        h('tbody', {}, changed.map((label) => h('tr', {}, h('th', { scope: 'row' }, label), h('td', { class: 'number' }, said(before, label)),
          h('td', { class: 'number' }, said(this.said, label)), h('td', {}, this.said.labels.includes(label) ? 'yes' : 'no')))))),
      h('p', { class: 'quiet' }, 'One example changes a model only a little; teach it again, or similar ones, for a larger change.'));
  }

  /** Have the measures of a trained model count what it says of the example. */
  async count(y) {
    const { id } = await call('POST', ofModel(this.name, 'predict'), { body: { x: this.x }, query: { keep: 'true' }, signal: this.signal });
    const { updates } = await call('POST', ofModel(this.name, 'labels'), { body: { id, y }, signal: this.signal });
    replace(this.outcome, h('p', {}, h('strong', { class: 'good' }, 'Counted.'), ` ${counted(updates, 'answer')} of this version labelled so far.`));
  }
}
