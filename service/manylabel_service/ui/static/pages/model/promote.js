/** Promoting a version of a trained model. */

import { call, ofModel } from '../../core/api.js';
import { h } from '../../core/dom.js';
import { ask } from '../../parts/dialog.js';

/**
 * Ask, and have a version served; ask again where it differs from the one served, which has to be meant.
 *
 * @param {string} model
 * @param {number} version
 * @param {?string} differs how it differs, where that was said already.
 * @returns {Promise<boolean>} whether it is served now.
 */
export async function promote(model, version, differs = null) {
  let found = null;
  const done = await ask({
    title: `Serve version ${version} of ${model}?`,
    text: [h('p', {}, 'All servers then predict with it. The previous version stays, and can be promoted again.'),
      differs && h('p', { class: 'warn' }, `It differs from the version served: ${differs}`)],
    action: differs ? 'Promote anyway' : 'Promote', danger: Boolean(differs),
    run: async () => {
      try {
        await call('POST', ofModel(model, 'promote'), { body: { version, ...(differs ? { force: true } : {}) } });
      } catch (error) {
        if (error.code !== 'version_differs') throw error;
        found = error.detail;
      }
    },
  });
  return found ? promote(model, version, found) : done;
}
