/** Calls of a server, and its errors. */

import createFetchClient, { type Client as FetchClient } from "openapi-fetch";

import type { components, paths } from "./schema.js";

/** Bodies and responses by name, such as `Schemas["PredictResponse"]`. */
export type Schemas = components["schemas"];

/** Problem document of the server (RFC 9457). */
export type ProblemDocument = Schemas["ProblemDocument"];

export interface Options {
  /** Address of the server; `http://127.0.0.1:8000` if omitted. */
  baseUrl?: string;
  /** A key, or a token derived from one; sent as a Bearer token. */
  apiKey?: string;
  /** Function that sends the requests; the global `fetch` if omitted. */
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

/** Error response. `code` identifies the error for programs; `message` describes it for people. */
export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    readonly status: number,
    /** Problem document; undefined if the response has none (from a proxy, or under `/v2`). */
    readonly document: ProblemDocument | undefined,
  ) {
    super(document?.detail ?? `the server answered ${status}`);
  }

  /** Error code, such as `model_not_found`; empty if the response has none. */
  get code(): string {
    return this.document?.code ?? "";
  }
}

/** Result of a call of `Client`: with data, or with an error. */
export type Answer<Data> =
  | { data: Data; error?: never; response: Response }
  | { data?: never; error: unknown; response: Response };

/**
 * Return the data of a result.
 *
 * @throws Problem if the result is an error.
 */
export function unwrap<Data>(answer: Answer<Data>): Data {
  if (!answer.response.ok) throw new Problem(answer.response.status, problemOf(answer.error));
  return answer.data as Data;
}

/** Return the body of a response if it is a problem document. */
export function problemOf(error: unknown): ProblemDocument | undefined {
  return typeof error === "object" && error !== null && "code" in error ? (error as ProblemDocument) : undefined;
}

/** Return the base address of all calls. */
export function address(options: Options): string {
  return (options.baseUrl ?? "http://127.0.0.1:8000").replace(/\/+$/, "");
}

/** Return the headers of all calls. */
export function headers(options: Options): Record<string, string> {
  return options.apiKey === undefined ? {} : { Authorization: `Bearer ${options.apiKey}` };
}
