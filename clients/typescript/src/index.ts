/** Client of a ManyLabel server. Calls and types are generated from the server's OpenAPI description (schema.ts). */

export * from "./client.js";
export * from "./events.js";
export * from "./teacher.js";
export type { components, operations, paths } from "./schema.js";
