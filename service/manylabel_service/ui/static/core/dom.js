/** Makes elements. Nothing here takes markup: text stays text. */

/**
 * Return a new element.
 *
 * @param {string} tag its name.
 * @param {Object<string, any>} [properties] `class`; functions named as `onclick` are listeners; true and false are an
 *   attribute that is there or not; null and undefined are omitted; everything else is an attribute.
 * @param {...any} children nodes; strings and numbers become text, lists are flattened, null and false are omitted.
 * @returns {HTMLElement}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (typeof value === 'function') element.addEventListener(name.replace(/^on/, ''), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** Return the children as nodes and texts. */
function nodes(children) {
  return children.flat(Infinity).filter((child) => child != null && child !== false && child !== true)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Put children in the place of those that an element has. */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** Return a link to a page of this application, as `#/models/tags`; parts of it are encoded by `route`. */
export function link(hash, ...children) {
  return h('a', { href: hash }, ...children);
}

/** Return the hash of a page, each of whose parts is encoded: `route('models', name, 'try')`. */
export function route(...parts) {
  return `#/${parts.map(encodeURIComponent).join('/')}`;
}

/** Return a command that can be copied, with a button that does. */
export function command(text) {
  const button = h('button', { type: 'button', class: 'copy', onclick: copy }, 'Copy');
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code); // without https there is no clipboard: the text is selected instead
      button.textContent = 'Selected';
    }
  }
  const code = h('code', {}, text);
  return h('div', { class: 'command' }, h('pre', { tabindex: 0, 'aria-label': 'Command' }, code), button);
}

/** Return what an error says, in the words of the interface, for the place where it happened. */
export function shown(error) {
  const places = (error.errors ?? []).map((each) =>
    h('li', {}, h('code', {}, each.pointer ?? each.header ?? each.parameter ?? 'body'), ` ${each.detail}`));
  return h('div', { class: 'problem', role: 'alert' },
    h('strong', {}, error.title ?? 'An error in this page'),
    h('p', {}, error.detail ?? error.message ?? String(error)),
    places.length > 0 && h('ul', {}, places),
    error.code && h('p', { class: 'quiet' }, h('code', {}, error.code), error.request_id ? ` · request ${error.request_id}` : ''));
}
