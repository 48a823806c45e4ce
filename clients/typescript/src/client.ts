/** Calls of a server, and its errors. */

import createFetchClient, { type Client as FetchClient } from "openapi-fetch";

import type { components, paths } from "./schema.js";

/** Bodies and answers by name, e.g. `Schemas["PredictResponse"]`. */
export type Schemas = components["schemas"];

/** An error as the server describes it (RFC 9457). */
export type ProblemDocument = Schemas["ProblemDocument"];

export interface Options {
  /** Address of the server; `http://127.0.0.1:8000` if omitted. */
  baseUrl?: string;
  /** A key, or a token derived from one; sent as a Bearer token. */
  apiKey?: string;
  /** Sends the requests instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export type Client = FetchClient<paths>;

/** Return a client: `client.GET("/v1/models")`, `client.POST("/v1/models/{name}/predict", { params, body })`, ... */
export function createClient(options: Options = {}): Client {
  const { fetch } = options;
  return createFetchClient<paths>({
    baseUrl: address(options),
    headers: headers(options),
    ...(fetch && { fetch: (request: Request) => fetch(request) }),
  });
}

/** An answer that is no success. `code` says what happened, for programs; `message` says it to people. */
export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    readonly status: number,
    /** What the server said; undefined if that was no problem document (of a proxy, or under `/v2`). */
    readonly document: ProblemDocument | undefined,
  ) {
    super(document?.detail ?? `the server answered ${status}`);
  }

  /** E.g. `model_not_found`; empty if the server named none. */
  get code(): string {
    return this.document?.code ?? "";
  }
}

/** An answer of `Client`: with data, or with an error. */
export type Answer<Data> =
  | { data: Data; error?: never; response: Response }
  | { data?: never; error: unknown; response: Response };

/**
 * Return the data of an answer.
 *
 * @throws Problem if the answer is no success.
 */
export function unwrap<Data>(answer: Answer<Data>): Data {
  if (!answer.response.ok) throw new Problem(answer.response.status, problemOf(answer.error));
  return answer.data as Data;
}

/** Return what a server said, if it is a problem document. */
export function problemOf(error: unknown): ProblemDocument | undefined {
  return typeof error === "object" && error !== null && "code" in error ? (error as ProblemDocument) : undefined;
}

/** Return the address that calls begin with. */
export function address(options: Options): string {
  return (options.baseUrl ?? "http://127.0.0.1:8000").replace(/\/+$/, "");
}

/** Return the headers that all calls have. */
export function headers(options: Options): Record<string, string> {
  return options.apiKey === undefined ? {} : { Authorization: `Bearer ${options.apiKey}` };
}
