import * as dom from './ui/test/core/dom.js';
import * as axis from './ui/test/parts/axis.js';
import * as bars from './ui/test/parts/bars.js';
import * as cluster from './ui/test/parts/cluster.js';
import * as dialog from './ui/test/parts/dialog.js';
import * as form from './ui/test/parts/form.js';
import * as heat from './ui/test/parts/heat.js';
import * as line from './ui/test/parts/line.js';
import * as ring from './ui/test/parts/ring.js';
import * as table from './ui/test/parts/table.js';
import * as text from './ui/test/parts/text.js';

globalThis.parts = { dom, axis, bars, cluster, dialog, form, heat, line, ring, table, text };
const main = document.querySelector('main');
globalThis.add = (tag, attributes = {}) => {
  const element = dom.h(tag, attributes);
  main.append(element);
  return element;
};
main.dataset.ready = 'yes';
