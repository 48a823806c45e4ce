/** The shared worker: one connection for each address and key, for all tabs that want it and can be seen. */

const MOST = 4; // connections at once, of the six that a browser opens to a host
const FIRST_TRY_MS = 500;
const MOST_TRY_MS = 10_000;
const GATHER_MS = 100; // events are handed on together
const SILENT_MS = 90_000; // a tab that has sent nothing for this time is gone
const LOOK_MS = 30_000;
const STEADY_MS = 5_000; // after a connection that lasted this long, the next try comes soon

const streams = new Map(); // by address and key
const ports = new Map(); // when each tab was heard of

onconnect = ({ ports: [port] }) => {
  ports.set(port, Date.now());
  port.onmessage = ({ data }) => {
    ports.set(port, Date.now());
    if (data.watch !== undefined) join(port, data);
    else if (data.leave !== undefined) leave(port, data.leave);
    else if (data.hurry) for (const stream of streams.values()) stream.hurry?.();
  };
};

setInterval(() => {
  for (const [port, heard] of ports) {
    if (Date.now() - heard < SILENT_MS) continue;
    ports.delete(port);
    for (const stream of [...streams.values()]) {
      for (const member of [...stream.members]) if (member.port === port) part(stream, member);
    }
  }
}, LOOK_MS);

function join(port, { watch: id, url, key }) {
  leave(port, id);
  const name = `${url}\n${key}`;
  let stream = streams.get(name);
  if (!stream) {
    stream = { name, url, key, members: new Set(), control: null, opened: false, hurry: null };
    streams.set(name, stream);
  }
  const member = { port, id, events: [], timer: 0 };
  stream.members.add(member);
  if (stream.opened) give(member, 'open');
  else begin();
  if (!stream.control) give(member, 'poll');
}

function leave(port, id) {
  for (const stream of [...streams.values()]) {
    for (const member of [...stream.members]) if (member.port === port && member.id === id) part(stream, member);
  }
}

function part(stream, member) {
  clearTimeout(member.timer);
  stream.members.delete(member);
  if (stream.members.size > 0) return;
  streams.delete(stream.name);
  stream.control?.abort();
  begin();
}

/** Connect those that there is room for, the first ones first. */
function begin() {
  const room = MOST - [...streams.values()].filter((stream) => stream.control).length;
  for (const stream of [...streams.values()].filter((each) => !each.control).slice(0, Math.max(0, room))) run(stream);
}

async function run(stream) {
  const control = stream.control = new AbortController();
  let wait = FIRST_TRY_MS;
  while (!control.signal.aborted) {
    const began = Date.now();
    let ended = { kind: 'lost' };
    try {
      ended = await read(stream, control.signal);
    } catch {
      if (control.signal.aborted) return;
    }
    stream.opened = false;
    tell(stream, ended.kind, ended.data);
    if (ended.kind === 'problem') {
      streams.delete(stream.name);
      begin();
      return;
    }
    if (Date.now() - began > STEADY_MS) wait = FIRST_TRY_MS;
    await new Promise((resume) => {
      stream.hurry = resume;
      setTimeout(resume, wait * (0.5 + Math.random()));
    });
    wait = Math.min(2 * wait, MOST_TRY_MS);
  }
}

/** Read one connection to its end; return the event that says how it ended. */
async function read(stream, signal) {
  const answer = await fetch(stream.url, {
    signal, cache: 'no-store', headers: stream.key ? { Authorization: `Bearer ${stream.key}` } : {},
  });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({ status: answer.status, title: `Status ${answer.status}` }));
    const passing = answer.status >= 500 || answer.status === 429;
    return passing ? { kind: 'lost' } : { kind: 'problem', data: problem };
  }
  stream.opened = true;
  tell(stream, 'open');
  const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let kind = 'message';
  let data = '';
  for (;;) {
    const { done, value } = await lines.read();
    if (done) return { kind: 'end' };
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const raw of parts) {
      const line = raw.replace(/\r$/, '');
      if (line.startsWith('event:')) kind = line.slice(6).trim();
      else if (line.startsWith('data:')) data += line.slice(5).trim();
      else if (line === '') {
        if (data) tell(stream, kind, JSON.parse(data));
        kind = 'message';
        data = '';
      }
    }
  }
}

function tell(stream, kind, data) {
  for (const member of stream.members) give(member, kind, data);
}

function give(member, kind, data) {
  member.events.push({ kind, data });
  member.timer ||= setTimeout(() => {
    member.timer = 0;
    member.port.postMessage({ id: member.id, events: member.events.splice(0) });
  }, GATHER_MS);
}
