import { h } from '../core/dom.js';
import { digits } from '../core/format.js';

/**
 * Labelled bars, a native table: `<ml-bars heading="Probabilities" name-title="Label" value-title="Probability" max="1">`.
 *
 * `set([{name, value, text, mark, strong}])` shows them in this order. A negative value goes to the left, and has its sign
 * before its number, so that the colour is not all that says so. `text` is shown for the value, which else stands there
 * to the digit; `mark` is where an upright stroke crosses the bar, as the threshold of a label; `strong` has the name in
 * bold. Without `max` the longest bar fills its place.
 */
export class Bars extends HTMLElement {
  set(items) {
    const heading = this.getAttribute('heading');
    const signed = items.some(({ value }) => value < 0) || this.hasAttribute('signed');
    const max = Number(this.getAttribute('max')) || Math.max(0, ...items.map(({ value }) => Math.abs(value ?? 0))) || 1;
    this.classList.toggle('ml-signed', signed);
    this.replaceChildren(h('table', { class: 'ml-bars' },
      heading ? h('caption', {}, heading) : null,
      h('colgroup', {}, h('col', { class: 'ml-name-column' }), h('col'), h('col', { class: 'ml-value-column' })),
      h('thead', { class: 'ml-unseen' }, h('tr', {},
        h('th', { scope: 'col' }, this.getAttribute('name-title') ?? 'Name'),
        h('th', { scope: 'col' }, 'Bar'),
        h('th', { scope: 'col' }, this.getAttribute('value-title') ?? 'Value'))),
      h('tbody', {}, items.map((item) => row(item, max, signed)))));
  }
}

function row({ name, value, text, mark, strong }, max, signed) {
  const share = (of) => Math.min(1, Math.abs(of ?? 0) / max) * (signed ? 50 : 100);
  const bar = h('div', { class: value < 0 ? 'ml-bar ml-minus' : signed ? 'ml-bar ml-plus' : 'ml-bar' });
  bar.style.width = `${share(value)}%`;
  if (signed) bar.style.left = value < 0 ? `${50 - share(value)}%` : '50%';
  const track = h('div', { class: 'ml-track' }, bar);
  if (mark !== null && mark !== undefined) {
    const stroke = h('div', { class: 'ml-mark', title: `threshold ${mark}` });
    stroke.style.left = `${share(mark)}%`;
    track.append(stroke);
  }
  const written = text ?? (value == null ? '–' : `${signed && value > 0 ? '+' : ''}${value}`);
  return h('tr', { class: strong ? 'ml-strong' : null },
    h('th', { scope: 'row' }, name), h('td', { class: 'ml-bar-cell' }, track), h('td', { class: 'number' }, digits(written)));
}

customElements.define('ml-bars', Bars);
