// LangGraph's client for JavaScript: a run that waits for a decision, one that is cancelled, two in a thread, a lost stream.
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: `${process.env.ANTLER_URL}/api/langgraph`, apiKey: process.env.ANTLER_TOKEN });
const input = (text) => ({ messages: [{ role: "user", content: text }] });
const newThread = async () => (await client.threads.create()).thread_id;
const contents = (values) => values.messages.filter((each) => each.type !== "tool").map((each) => each.content).filter(Boolean);
const status = async (thread, run) => (await client.runs.get(thread, run)).status;

async function decided() {
  const thread = await newThread();
  const events = [];
  const letter = '!tool send_letter {"to": "ann"}\n!say Sent.';
  for await (const part of client.runs.stream(thread, "default", { input: input(letter), streamMode: ["values", "updates"] })) {
    events.push(part);
  }
  const asked = events.map((part) => part.data?.__interrupt__).find(Boolean);
  const state = await client.threads.getState(thread);
  const told = [];
  const command = { resume: { [asked[0].id]: "once" } };
  for await (const part of client.runs.stream(thread, "default", { command, streamMode: "messages-tuple" })) {
    if (part.event === "messages") told.push([part.data[0].type, part.data[0].content]);
  }
  return {
    tool: asked[0].value.tool,
    next: state.next,
    waited: state.tasks[0].interrupts.length,
    told: told.filter(([, content]) => content),
    status: (await client.threads.get(thread)).status,
  };
}

async function cancelled() {
  const thread = await newThread();
  const run = (await client.runs.create(thread, "default", { input: input("!hang") })).run_id;
  await client.runs.cancel(thread, run, true);
  return await status(thread, run);
}

async function twoAtOnce(multitaskStrategy) {
  const thread = await newThread();
  const first = (await client.runs.create(thread, "default", { input: input("!hang first") })).run_id;
  const second = { input: input("!say Second."), multitaskStrategy };
  if (multitaskStrategy === "reject") {
    const refused = await client.runs.create(thread, "default", second).catch((error) => error.status);
    await client.runs.cancel(thread, first, true);
    return refused;
  }
  if (multitaskStrategy === "enqueue") {
    const run = (await client.runs.create(thread, "default", second)).run_id;
    const before = await status(thread, run);
    await client.runs.cancel(thread, first, true);
    return [before, contents(await client.runs.join(thread, run))];
  }
  return [contents(await client.runs.wait(thread, "default", second)), await status(thread, first)];
}

async function cameBack() {
  const thread = await newThread();
  const text = [];
  let runId, lastEventId;
  const first = client.runs.stream(thread, "default", {
    input: input("!tokens 30 30"),
    streamMode: "messages-tuple",
    onRunCreated: (run) => { runId = run.run_id; },
  });
  for await (const part of first) {
    if (part.event !== "messages") continue;
    text.push(part.data[0].content);
    lastEventId = part.id;
    if (text.length === 3) break;
  }
  const events = [];
  for await (const part of client.runs.joinStream(thread, runId, { streamMode: "messages-tuple", lastEventId })) {
    events.push(part.event);
    if (part.event === "messages") text.push(part.data[0].content);
  }
  const whole = contents((await client.threads.getState(thread)).values).at(-1);
  return { same: text.join("") === whole, words: whole.trim().split(" ").length, gap: events.includes("gap") };
}

const strategies = {};
for (const strategy of ["reject", "enqueue", "interrupt", "rollback"]) strategies[strategy] = await twoAtOnce(strategy);
console.log(JSON.stringify({ decided: await decided(), cancelled: await cancelled(), strategies, cameBack: await cameBack() }));
