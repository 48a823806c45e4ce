/** Server-sent events, read with `fetch`, because a browser's EventSource cannot send a key. */

import { address, headers, type Options, Problem, problemOf, type Schemas } from "./client.js";

/** Data of the events of a model, by kind. */
export interface ModelEvents {
  update: Schemas["UpdateEvent"];
  drift: Schemas["DriftEvent"];
  label: Schemas["LabelEvent"];
  parity: Schemas["ParityEvent"];
  rollback: Schemas["RollbackEvent"];
  promoted: Schemas["PromotedEvent"];
  not_promoted: Schemas["NotPromotedEvent"];
  metrics: Schemas["Metrics"];
  dropped: Schemas["DroppedEvent"];
}

/** Data of the events of a job, by kind. */
export interface JobEvents {
  state: Schemas["Job"];
  progress: Schemas["Job"];
  log: Schemas["LogLine"];
}

/** An event: `event` is its kind, which determines the type of `data`. */
export type ServerEvent<Events> = {
  [Kind in keyof Events]: { event: Kind; data: Events[Kind]; id: string | undefined };
}[keyof Events];

export interface WatchOptions extends Options {
  /** Signal that ends the iteration. */
  signal?: AbortSignal;
  /** The `id` of the last event received; iteration resumes after it. */
  lastEventId?: string;
}

/** Yield the events of a model until `signal` is aborted; reconnects automatically. */
export async function* watchModel(name: string, options: WatchOptions = {}): AsyncGenerator<ServerEvent<ModelEvents>> {
  yield* watch<ModelEvents>(`/v1/models/${encodeURIComponent(name)}/events`, options, () => false);
}

/** Yield the events of a job until it has ended or `signal` is aborted; reconnects automatically. */
export async function* watchJob(id: string, options: WatchOptions = {}): AsyncGenerator<ServerEvent<JobEvents>> {
  yield* watch<JobEvents>(
    `/v1/jobs/${encodeURIComponent(id)}/events`,
    options,
    (event) => event.event === "state" && ["succeeded", "failed", "cancelled"].includes(event.data.state),
  );
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

async function* watch<Events>(
  path: string,
  options: WatchOptions,
  isLast: (event: ServerEvent<Events>) => boolean,
): AsyncGenerator<ServerEvent<Events>> {
  const { signal } = options;
  let { lastEventId } = options;
  let wait = FIRST_WAIT_MS;
  while (!signal?.aborted) {
    try {
      for await (const event of connect<Events>(path, { ...options, ...(lastEventId && { lastEventId }) })) {
        lastEventId = event.id ?? lastEventId;
        wait = FIRST_WAIT_MS;
        yield event;
        if (isLast(event)) return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      const heals = !(error instanceof Problem) || error.status === 429 || error.status >= 500;
      if (!heals) throw error;
    }
    await pause(wait, signal);
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

async function* connect<Events>(path: string, options: WatchOptions): AsyncGenerator<ServerEvent<Events>> {
  const { lastEventId, signal } = options;
  const response = await (options.fetch ?? fetch)(address(options) + path, {
    headers: { ...headers(options), Accept: "text/event-stream", ...(lastEventId && { "Last-Event-ID": lastEventId }) },
    ...(signal && { signal }),
  });
  if (!response.ok) throw new Problem(response.status, problemOf(await response.json().catch(() => undefined)));
  if (response.body === null) return;
  let event = "message";
  let id: string | undefined;
  let data: string[] = [];
  for await (const line of lines(response.body)) {
    if (line === "") {
      if (data.length > 0) yield { event, id, data: JSON.parse(data.join("\n")) } as ServerEvent<Events>;
      [event, id, data] = ["message", undefined, []];
      continue;
    }
    const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const found = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = found.pop() ?? "";
      yield* found.map((line) => line.replace(/\r$/, ""));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
