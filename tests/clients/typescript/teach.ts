// The loop with a teacher: first against answers that are made up, then against a server.
import { createClient, Problem, TeacherBusy, TeacherFailed, TeacherRefuses, unwrap, withTeacher } from "manylabel";

type Sent = { path: string; body: any };

/** Return a client of a server whose predictions ask the teacher for texts with a question mark, and what it was sent. */
function madeUp(statuses: number[] = []) {
  const sent: Sent[] = [];
  const fetch = async (request: RequestInfo | URL) => {
    const { pathname } = new URL((request as Request).url);
    const body = await (request as Request).json();
    sent.push({ path: pathname, body });
    if (pathname.endsWith("/predict")) {
      const predictions = body.examples.map(({ x }: { x: string }) => {
        const ask = x.includes("?");
        return { id: `id of ${x}`, ask, why: ask ? "audit" : "sure", labels: ["own"], scores: {}, threshold: 0 };
      });
      return Response.json({ position: "1", predictions });
    }
    const status = statuses.shift() ?? 200;
    if (status === 200) return Response.json({ position: "2", updates: 1 });
    const code = { 409: "prediction_labelled", 410: "prediction_expired", 503: "not_ready" }[status] ?? "";
    return Response.json({ status, code, detail: "made up" }, { status, headers: { "Content-Type": "application/problem+json" } });
  };
  return { client: createClient({ fetch }), sent };
}

function labelsOf(sent: Sent[]): string {
  const labels = sent.filter(({ path }) => path.endsWith("/labels"));
  return labels.map(({ body }) => `${body.id}: ${body.y} (${body.source})`).join(", ");
}

const waits: number[] = [];
const sleep = async (seconds: number) => void waits.push(seconds);
const retry = { jitter: 0 };

{
  const { client, sent } = madeUp();
  const label = withTeacher(client, "m", (x: string) => [x.slice(0, 1), x.slice(0, 1)], { sleep, retry });
  console.log("alone", await label("a"), labelsOf(sent));
  console.log("asked", await label("b?"), labelsOf(sent));
}
{
  const { client, sent } = madeUp([503, 503, 200]);
  const label = withTeacher(client, "m", () => new Set(["t"]), { sleep, retry, source: "rule" });
  console.log("submitted again", await label("a?"), sent.length - 1, waits.splice(0));
}
for (const status of [409, 410]) {
  const { client } = madeUp([status]);
  console.log("answered before", status, await withTeacher(client, "m", () => ["t"], { sleep, retry })("a?"));
}
{
  const { client } = madeUp([403]);
  const label = withTeacher(client, "m", () => ["t"], { sleep, retry });
  console.log("rejected", await label("a?").catch((error) => error instanceof Problem && error.status));
}
{
  const { client, sent } = madeUp();
  const answers = [new TeacherBusy("later", 7), "a text", [""], ["strange"], ["t"]];
  const call = () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer as string[];
  };
  const label = withTeacher(client, "m", call, { sleep, retry: { ...retry, attempts: 5 }, labels: ["t"] });
  console.log("nonsense", await label("a?"), waits.splice(0), labelsOf(sent));
}
{
  const { client, sent } = madeUp();
  let running = 0;
  let most = 0;
  let calls = 0;
  const call = async (x: string) => {
    calls += 1;
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running -= 1;
    if (x === "never?") throw new TeacherRefuses("filtered");
    if (x === "down?") throw new Error("down");
    return [x];
  };
  const label = withTeacher(client, "m", call, { sleep, retry });
  for await (const answer of label.many(["a?", "b", "never?", "down?", "c?", "d?"], { workers: 2, batchSize: 4 })) {
    const failed = answer.error instanceof TeacherFailed ? answer.error.message : "";
    console.log("many", answer.labels, answer.asked, failed);
  }
  console.log("at a time", most, "calls", calls, labelsOf(sent));
}
{
  const { client } = madeUp();
  const endless = async function* () {
    for (;;) yield "a";
  };
  for await (const answer of withTeacher(client, "m", () => []).many(endless())) {
    console.log("lazy", answer.labels);
    break;
  }
}

const client = createClient({ baseUrl: process.argv[2] ?? "" });
const name = "taught";
unwrap(await client.POST("/v1/models", { body: { name, algorithm: "falt", sources: { machine: 1 } } }));
const label = withTeacher(client, name, (x: { a: number }) => (x.a > 2 ? ["large"] : []));
console.log("no promise", await label({ a: 1 }).catch((error) => error.message));
unwrap(await client.PUT("/v1/models/{name}/promise", { params: { path: { name } }, body: { parity: 0.9 } }));
const asked: boolean[] = [];
for await (const answer of label.many([1, 2, 3, 4, 5].map((a) => ({ a })))) asked.push(answer.asked);
const status = unwrap(await client.GET("/v1/models/{name}", { params: { path: { name } } }));
console.log("server", asked.every(Boolean), "updates" in status && status.updates);
// @ts-expect-error a teacher returns labels
void (() => withTeacher(client, name, () => [1]));
