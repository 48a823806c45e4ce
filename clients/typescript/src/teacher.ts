/** A model in front of an expensive teacher, such as a language model: it answers alone what it is sure of. */

import { type Client, Problem, type Schemas, unwrap } from "./client.js";

/** Example of a prediction. */
export type Features = Schemas["PredictItem"]["x"];

/** Source of labels. */
export type Source = NonNullable<Schemas["LabelItem"]["source"]>;

/** Retry rule: exponential backoff with jitter. */
export interface Retry {
  /** Maximum attempts, including the first. */
  attempts: number;
  /** Seconds before the second attempt; doubled for each further one. */
  baseSeconds: number;
  /** Maximum seconds of a wait, without those that the teacher asks for. */
  capSeconds: number;
  /** Random share of a wait that is subtracted, 0 to 1. */
  jitter: number;
  /** Maximum seconds of all attempts and waits. */
  patienceSeconds: number;
}

/** Default retry rule of a teacher. */
export const TEACHER_RETRY: Readonly<Retry> = {
  attempts: 4,
  baseSeconds: 0.5,
  capSeconds: 20,
  jitter: 0.5,
  patienceSeconds: 120,
};

/** The teacher answers later, because of a rate limit. Throw it from `call` to set the wait. */
export class TeacherBusy extends Error {
  override readonly name = "TeacherBusy";

  constructor(
    message = "the teacher is busy",
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
  }
}

/** The teacher will never answer this example, for example because of a content filter. It is not asked again. */
export class TeacherRefuses extends Error {
  override readonly name = "TeacherRefuses";
}

/**
 * The teacher did not answer an example in all attempts, and nothing was learnt.
 *
 * If the example was an audit, it counts as wrong when the stored prediction expires. `cause` is the last error.
 */
export class TeacherFailed extends Error {
  override readonly name = "TeacherFailed";
}

export interface TeacherOptions {
  /** Source of the teacher's labels, as in the promise (`of`); `machine` if omitted. */
  source?: Source;
  /** Attempts for one example, and waits between them; of `TEACHER_RETRY` if omitted. */
  retry?: Partial<Retry>;
  /** Labels that the teacher may use; an answer with another label counts as failed. Any if omitted. */
  labels?: Iterable<string>;
  /** With `asked`, the server stores an answer of the model only if people should check it; `true` if omitted. */
  keep?: "true" | "asked";
  /** Waits for a number of seconds; for tests. */
  sleep?: (seconds: number) => Promise<unknown>;
}

export interface ManyOptions {
  /** Maximum number of simultaneous calls of the teacher; 8 if omitted. */
  workers?: number;
  /** Number of examples that are predicted before the teacher's answers to them are learnt; 32 if omitted. */
  batchSize?: number;
}

/** Answer to an example. */
export interface TaughtAnswer {
  /** The model's labels, or the teacher's if it was asked; undefined if it failed. */
  labels: string[] | undefined;
  /** Whether the teacher was asked. */
  asked: boolean;
  /** The model's prediction. */
  prediction: Schemas["Prediction"];
  /** Failure of the teacher, if it failed. */
  error?: TeacherFailed;
}

/** A model with its teacher. */
export interface Taught<X extends Features = Features> {
  /**
   * Return the labels of an example: the model's if it is sure, otherwise the teacher's, which the model learns at once.
   *
   * @throws TeacherFailed if the teacher was asked and did not answer in all attempts.
   * @throws Problem if the server rejects a call.
   */
  (x: X): Promise<string[]>;

  /** Yield the answers to examples, in their order; a failing teacher does not end the iteration. */
  many(xs: Iterable<X> | AsyncIterable<X>, options?: ManyOptions): AsyncGenerator<TaughtAnswer>;
}

/**
 * Return a function that labels an example: by the model if it is sure, else by the teacher, who teaches it.
 *
 * The server decides for which examples the teacher is asked, so that in the long run the model's answers agree with the
 * teacher as promised. The teacher must not be shown the model's answer: an audit would find nothing.
 *
 * @param client Client of the server.
 * @param model Name of a model that promises parity.
 * @param call The teacher: returns the labels of an example. After any exception it is called again: after `TeacherBusy`
 *   later, after `TeacherRefuses` not at all. A `Problem` ends the loop. A call that takes too long must end by itself,
 *   for example by `AbortSignal.timeout`.
 */
export function withTeacher<X extends Features>(
  client: Client,
  model: string,
  call: (x: X) => Promise<Iterable<string>> | Iterable<string>,
  options: TeacherOptions = {},
): Taught<X> {
  const retry = { ...TEACHER_RETRY, ...options.retry };
  const { source = "machine", keep = "true", sleep = wait } = options;
  const known = options.labels && new Set(options.labels);
  const path = { name: model };

  async function predict(xs: X[]): Promise<Schemas["Prediction"][]> {
    const body = { examples: xs.map((x) => ({ x })) };
    const params = { path, query: { keep } };
    const found = unwrap(await client.POST("/v1/models/{name}/predict", { params, body }));
    return "predictions" in found ? found.predictions : [found];
  }

  const ask = (x: X): Promise<string[]> =>
    repeated(
      async () => checked(await call(x), known),
      (error) => {
        if (error instanceof Problem) throw error;
        return !(error instanceof TeacherRefuses);
      },
      (error, failures) => {
        const what = error instanceof TeacherRefuses ? "refuses to answer" : `failed ${failures} times`;
        return new TeacherFailed(`the teacher ${what}: ${messageOf(error)}`, { cause: error });
      },
    );

  const learn = (prediction: Schemas["Prediction"], y: string[]): Promise<void> =>
    repeated(
      async () => {
        const body = { id: idOf(prediction), y, source };
        const answer = await client.POST("/v1/models/{name}/labels", { params: { path }, body });
        if (!isAnswered(answer.error)) unwrap(answer);
      },
      (error) => !(error instanceof Problem) || [429, 502, 503, 504].includes(error.status),
      (error) => error,
    );

  /** Return the result of an action, which is repeated after errors that may pass. */
  async function repeated<T>(
    action: () => Promise<T>,
    mayPass: (error: unknown) => boolean,
    final: (error: unknown, failures: number) => unknown,
  ): Promise<T> {
    const began = performance.now();
    for (let failures = 1; ; failures += 1) {
      try {
        return await action();
      } catch (error) {
        const asked = error instanceof TeacherBusy ? (error.retryAfterSeconds ?? 0) : 0;
        const left = retry.patienceSeconds - (performance.now() - began) / 1000;
        if (!mayPass(error) || failures >= retry.attempts || asked > left || left <= 0) throw final(error, failures);
        const backoff = Math.min(retry.capSeconds, retry.baseSeconds * 2 ** (failures - 1));
        await sleep(Math.min(left, asked + backoff * (1 - retry.jitter * Math.random())));
      }
    }
  }

  async function taught(x: X): Promise<string[]> {
    const [prediction] = await predict([x]);
    if (prediction === undefined) throw new Error("the server returned no prediction");
    if (!isAsked(prediction)) return prediction.labels;
    const labels = await ask(x);
    await learn(prediction, labels);
    return labels;
  }

  async function* many(
    xs: Iterable<X> | AsyncIterable<X>,
    { workers = 8, batchSize = 32 }: ManyOptions = {},
  ): AsyncGenerator<TaughtAnswer> {
    for await (const chunk of chunks(xs, batchSize)) {
      const predictions = await predict(chunk);
      const asked = predictions.map(isAsked);
      const turn = limited(workers);
      const calls = chunk.map((x, i) => (asked[i] ? settled(turn(() => ask(x))) : undefined));
      for (const [i, prediction] of predictions.entries()) {
        const found = await calls[i];
        if (found === undefined) {
          yield { labels: prediction.labels, asked: false, prediction };
        } else if ("labels" in found) {
          await learn(prediction, found.labels);
          yield { labels: found.labels, asked: true, prediction };
        } else if (found.error instanceof TeacherFailed) {
          yield { labels: undefined, asked: true, prediction, error: found.error };
        } else {
          throw found.error;
        }
      }
    }
  }

  return Object.assign(taught, { many });
}

/** Return the teacher's labels, each once. */
function checked(found: unknown, known: Set<string> | undefined): string[] {
  if (typeof found !== "object" || found === null || !(Symbol.iterator in found)) {
    throw new TypeError("a teacher returns a list of labels");
  }
  const labels = [...new Set(found as Iterable<unknown>)];
  for (const label of labels) {
    if (typeof label !== "string" || label === "") {
      throw new TypeError(`a teacher's label is a string that is not empty, not ${JSON.stringify(label)}`);
    }
    if (known && !known.has(label)) {
      throw new TypeError(`the teacher's label ${JSON.stringify(label)} is not one of the ${known.size} known ones`);
    }
  }
  return labels as string[];
}

function isAsked(prediction: Schemas["Prediction"]): boolean {
  if (prediction.ask === undefined || prediction.ask === null) {
    throw new Error("the model promises no parity: set it by PUT /v1/models/{name}/promise");
  }
  return prediction.ask;
}

function idOf(prediction: Schemas["Prediction"]): string {
  if (typeof prediction.id !== "string") throw new Error("the prediction was not stored");
  return prediction.id;
}

/** Return whether an error says that the prediction has its labels, or has expired: there is nothing left to learn. */
function isAnswered(error: unknown): boolean {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : "";
  return code === "prediction_labelled" || code === "prediction_expired";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

function wait(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}

/** Return the result of a promise, or its error: it may fail before the caller waits for it. */
async function settled(labels: Promise<string[]>): Promise<{ labels: string[] } | { error: unknown }> {
  try {
    return { labels: await labels };
  } catch (error) {
    return { error };
  }
}

/** Return a function that runs at most this number of actions at the same time. */
function limited(most: number): <T>(action: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (action) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await action();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}

async function* chunks<X>(xs: Iterable<X> | AsyncIterable<X>, size: number): AsyncGenerator<X[]> {
  let chunk: X[] = [];
  for await (const x of xs) {
    if (chunk.push(x) === size) {
      yield chunk;
      chunk = [];
    }
  }
  if (chunk.length) yield chunk;
}
