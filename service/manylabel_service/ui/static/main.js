/** The frame: head, navigation, what is amiss with the server, and the page that the hash of the address names. */

import { server, upgraded } from './core/api.js';
import { watchCompiling } from './core/compiling.js';
import { bar, bars } from './core/top.js';
import { h, link, replace, route, shown } from './core/dom.js';
import { keyButton, onKeyChange } from './core/session.js';

/** Each page: the parts of its hash, a name in braces standing for any; its module; the entry of the navigation. */
const PAGES = [
  ['', 'overview', '#/'],
  ['models/{name}', 'model', '#/'],
  ['models/{name}/try', 'try', '#/'],
  ['models/{name}/label', 'label', '#/'],
  ['models/{name}/labels', 'labels', '#/'],
  ['jobs', 'jobs', '#/jobs'],
  ['jobs/new', 'new_job', '#/jobs'],
  ['jobs/{id}', 'job', '#/jobs'],
  ['datasets/new', 'upload', '#/jobs'],
  ['datasets/{dataset}', 'dataset', '#/jobs'],
  ['operations', 'operations', '#/operations'],
];
const NAVIGATION = [['#/', 'Models'], ['#/jobs', 'Jobs'], ['#/operations', 'Operations']];

const navigation = h('nav', { 'aria-label': 'Main' });
const main = h('main', { id: 'main', tabindex: -1 });
let leaving = new AbortController();
let failed = false;

document.body.append(
  h('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); main.focus(); } }, 'To the content'),
  h('header', { class: 'head' },
    h('a', { class: 'brand', href: '#/' }, 'ManyLabel'), navigation,
    h('span', { class: 'aside' }, h('a', { href: new URL('../../docs', import.meta.url) }, 'HTTP interface'), keyButton())),
  bars, main);

const seen = new Set();
/** Show an error of this page's own code: it is reported nowhere else. */
function fail(error) {
  if (error?.name === 'AbortError') return;
  if (error?.code) return; // a problem that some part let fall: it stands where it happened, or in the bar
  const text = error?.message ?? String(error);
  if (seen.has(text)) return;
  seen.add(text);
  const away = bar('bad', `An error in this page: ${text} `,
    h('button', { type: 'button', onclick: () => { away(); seen.delete(text); } }, 'Dismiss'));
}
addEventListener('error', (event) => fail(event.error ?? event.message));
addEventListener('unhandledrejection', (event) => fail(event.reason));

let takeAway = null;
server.addEventListener('gone', () => {
  takeAway ??= bar('bad', 'Server unreachable. Reconnecting …');
});
server.addEventListener('back', async () => {
  takeAway?.();
  takeAway = null;
  if (await upgraded()) offerReload();
  else if (failed) show();
});

let offered = false;
function offerReload() {
  if (offered) return;
  offered = true;
  bar('note', 'The server was upgraded. Reload to get the new version. ',
    h('button', { type: 'button', onclick: () => location.reload() }, 'Reload'));
}

/** Return the module of the page that a hash names, the names in it, and its entry in the navigation. */
function find(hash) {
  const parts = hash.replace(/^#\/?/, '').split('?')[0].split('/').map(decodeURIComponent);
  for (const [pattern, module, entry] of PAGES) {
    const wanted = pattern.split('/');
    if (wanted.length !== parts.length) continue;
    const parameters = {};
    const fits = wanted.every((part, i) => {
      if (!part.startsWith('{')) return part === parts[i];
      parameters[part.slice(1, -1)] = parts[i];
      return parts[i] !== '';
    });
    if (fits) return { module, entry, parameters };
  }
  return null;
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const found = find(location.hash);
  failed = false;
  replace(navigation, NAVIGATION.map(([hash, text]) =>
    h('a', { href: hash, 'aria-current': found?.entry === hash && 'page' }, text)));
  if (!found) {
    replace(main, h('h1', {}, 'Nothing here'), h('p', {}, 'This page does not exist. ', link('#/', 'All models')));
    return;
  }
  main.setAttribute('aria-busy', 'true');
  let title = found.parameters.name ?? '';
  try {
    const page = await import(`./pages/${found.module}.js`);
    if (signal.aborted) return;
    title = page.title(found.parameters);
    document.title = `${title} · ManyLabel`;
    const content = await page.render(found.parameters, { signal, main });
    if (signal.aborted) return;
    replace(main, heading(title, found), content);
  } catch (error) {
    if (signal.aborted) return;
    failed = true;
    if (error.compiling) watch();
    replace(main, heading(title, found), error.compiling ? null : shown(error));
    if (!error.code) await upgraded() ? offerReload() : console.error(error);
  }
  main.removeAttribute('aria-busy');
  if (moved) main.querySelector('h1')?.focus();
}

/** Return the heading of a page; those about one model have links to each other. */
function heading(title, { module, parameters: { name } }) {
  const h1 = h('h1', { tabindex: -1 }, title);
  if (name === undefined) return h1;
  const tabs = [['model', 'How it does'], ['try', 'Try it'], ['label', 'Label'], ['labels', 'Labels']];
  return [
    h('p', { class: 'crumbs' }, link('#/', 'Models'), ' / ', module === 'model' ? h('span', {}, name) : link(route('models', name), name)),
    h1,
    h('nav', { class: 'tabs', 'aria-label': 'This model' }, tabs.map(([page, text]) =>
      h('a', { href: page === 'model' ? route('models', name) : route('models', name, page), 'aria-current': page === module && 'page' }, text))),
  ];
}

function watch() {
  watchCompiling(() => { if (failed) show(); });
}

let moved = false;
addEventListener('hashchange', () => { moved = true; scrollTo(0, 0); show(); });
onKeyChange(() => { if (failed) show(); });
watch();
show();
