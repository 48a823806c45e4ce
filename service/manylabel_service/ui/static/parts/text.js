import { h } from '../core/dom.js';

const WORD = /[\p{L}\p{N}_][\p{L}\p{N}\p{M}_]*/gu;

/** Write a word as models have it: NFKC, lower case. */
export function folded(word) {
  return word.normalize('NFKC').toLowerCase();
}

/**
 * A text in which words that speak for or against something are marked: green with a plus, or red with a minus.
 *
 * @param {string} text
 * @param {Map<string, number>} weights by token, as a model has it: a word in lower case, or several in a row
 * @returns {HTMLElement}
 */
export function markedText(text, weights) {
  const words = [...text.matchAll(WORD)].map((match) => ({ start: match.index, end: match.index + match[0].length, word: folded(match[0]) }));
  const longest = Math.max(1, ...[...weights.keys()].map((token) => token.split(' ').length));
  const parts = [];
  let at = 0;
  for (let i = 0; i < words.length; i += 1) {
    const found = longestAt(words, i, longest, weights);
    if (!found) continue;
    const [n, weight] = found;
    const end = words[i + n - 1].end;
    parts.push(text.slice(at, words[i].start), mark(text.slice(words[i].start, end), weight));
    at = end;
    i += n - 1;
  }
  return h('span', { class: 'ml-text' }, parts, text.slice(at));
}

function longestAt(words, i, longest, weights) {
  for (let n = Math.min(longest, words.length - i); n > 0; n -= 1) {
    const weight = weights.get(words.slice(i, i + n).map(({ word }) => word).join(' '));
    if (weight) return [n, weight];
  }
  return null;
}

function mark(text, weight) {
  return h('mark', { class: weight > 0 ? 'ml-for' : 'ml-against', title: String(weight) },
    h('span', { class: 'ml-sign' }, weight > 0 ? '+' : '−'), text);
}
