/** Writes numbers and times. Values are those of the interface to the digit; short forms are for axes and rates alone. */

import { h } from './dom.js';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

const LONG_FRACTION = /^([+-]?\d+\.\d{4})(\d+)$/;

/**
 * Return a value as the API returns it; a dash for null. A long fraction shows its first four digits: all of them
 * are in the text, for copying and for screen readers, and in the title.
 */
export function value(number) {
  return number == null ? '–' : digits(String(number));
}

/** Return a number that was written already as `value` does. */
export function digits(text) {
  const [, seen, rest] = LONG_FRACTION.exec(text) ?? [];
  return rest ? h('data', { value: text, title: text }, seen, h('span', { class: 'rest' }, rest)) : text;
}

/** Return a count with its thousands apart: no digit is lost. */
export function count(number) {
  return number == null ? '–' : number.toLocaleString('en');
}

/** Return a count with what is counted: 1 label, 2 labels. */
export function counted(number, one) {
  return `${count(number)} ${one}${number === 1 ? '' : 's'}`;
}

/** Return a short form, of three digits, for axes and rates. */
export function short(number) {
  if (number == null || !Number.isFinite(number)) return '–';
  const size = Math.abs(number);
  for (const [unit, letter] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (size >= unit) return `${Number((number / (unit === 1e4 ? 1e3 : unit)).toPrecision(3))}${letter}`;
  }
  return String(Number(number.toPrecision(3)));
}

/** Return a size in short. */
export function bytes(number) {
  if (number == null) return '–';
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, number)) / 10));
  return `${Number((number / 2 ** (10 * power)).toPrecision(3))} ${UNITS[power]}`;
}

/** Return how long something takes, in short. */
export function duration(seconds) {
  if (seconds == null) return '–';
  if (seconds < 90) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** Return how long ago a time was, in milliseconds since 1970 or as the interface writes it. */
export function ago(time) {
  if (time == null) return '–';
  const seconds = (Date.now() - new Date(time).getTime()) / 1000;
  return seconds < 2 ? 'now' : `${duration(Math.round(seconds))} ago`;
}

/** Return a time as the reader's clock has it. */
export function clock(time) {
  return time == null ? '–' : new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}
