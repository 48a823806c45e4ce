// A program as somebody would write it: it has to compile, lines marked to be refused have to be, and then it is run.
import { createClient, Problem, type Schemas, unwrap, watchJob, watchModel } from "manylabel";

const baseUrl = process.argv[2] ?? "";
const client = createClient({ baseUrl });
const path = { name: "inbox" };

unwrap(await client.POST("/v1/models", { body: { name: "inbox", algorithm: "falt", text: { fields: ["subject"] } } }));

// @ts-expect-error there is no such path
void (() => client.GET("/v1/modles"));
// @ts-expect-error the name of the model is required
void (() => client.POST("/v1/models/{name}/predict", { body: { x: [1] } }));
// @ts-expect-error labels are strings
void (() => client.POST("/v1/models/{name}/update", { params: { path }, body: { x: { a: 1 }, y: [1] } }));

const controller = new AbortController();
const seen = (async () => {
  for await (const event of watchModel("inbox", { baseUrl, signal: controller.signal })) {
    if (event.event === "update") {
      const update: Schemas["UpdateEvent"] = event.data;
      return update.updates;
    }
  }
  return 0;
})();

const rows = Array.from({ length: 40 }, (_, i) =>
  i % 2
    ? { x: { subject: "Charged twice", country: "FR" }, y: ["billing"] }
    : { x: { subject: "Cannot sign in", country: "DE" }, y: ["login"] },
);
const header = { "Idempotency-Key": "typescript-1" };
const learnt = unwrap(
  await client.POST("/v1/models/{name}/update", { params: { path, header }, body: { examples: rows } }),
);
const guess = unwrap(
  await client.POST("/v1/models/{name}/predict", {
    params: { path },
    body: { x: { subject: "Charged" }, probabilities: true },
  }),
);
console.log("learnt", learnt.updates, "labels" in guess && guess.labels);
console.log("seen", (await seen) > 0);
controller.abort();

const job = unwrap(
  await client.POST("/v1/jobs", { body: { trainer: "m3l", data: { stream: "inbox", last: 40 }, model: "inbox-m3l" } }),
);
let state = "";
for await (const event of watchJob(job.id, { baseUrl })) if (event.event === "state") state = event.data.state;
console.log("job", state);

try {
  unwrap(await client.GET("/v1/models/{name}", { params: { path: { name: "nobody" } } }));
} catch (error) {
  if (error instanceof Problem) console.log(error.status, error.code, error.document?.instance);
}
