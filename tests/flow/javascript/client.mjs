// LangGraph's client for JavaScript: a thread, a stream in several modes, a state that is read and written, a run that is joined.
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: `${process.env.ANTLER_URL}/api/langgraph`, apiKey: process.env.ANTLER_TOKEN });
const thread = await client.threads.create({ metadata: { from: "javascript" } });
const input = (text) => ({ messages: [{ role: "user", content: text }] });
let text = "";
const events = [];
let runId;
const stream = client.runs.stream(thread.thread_id, "default", {
  input: input("!say From JavaScript."),
  streamMode: ["values", "messages-tuple", "custom"],
  onRunCreated: (run) => { runId = run.run_id; },
});
for await (const part of stream) {
  events.push(part.event);
  if (part.event === "messages") text += part.data[0].content;
}
const state = await client.threads.getState(thread.thread_id);
const run = await client.runs.get(thread.thread_id, runId);
const waited = await client.runs.wait(thread.thread_id, "default", { input: input("!say Again.") });
const joined = [];
for await (const part of client.runs.joinStream(thread.thread_id, runId, { streamMode: "values", lastEventId: "-1" })) {
  joined.push(part.event);
}
const contents = async () =>
  (await client.threads.getState(thread.thread_id)).values.messages.map((message) => message.content);
const written = { type: "human", id: "written", content: "Written from JavaScript." };
await client.threads.updateState(thread.thread_id, { values: { messages: [written] } });
const afterwards = await contents();
await client.threads.updateState(thread.thread_id, { values: { messages: [{ type: "remove", id: "written" }] } });
const removed = await contents();
await client.runs.wait(thread.thread_id, "default", { input: input("!say Instead."), checkpoint: state.checkpoint });
const refused = await client.crons.search({}).catch((error) => error.status);
const found = await client.threads.search({ metadata: { from: "javascript" }, limit: 100 });
console.log(JSON.stringify({
  text,
  ends: events.at(-1),
  status: run.status,
  messages: state.values.messages.map((message) => message.content),
  waited: waited.messages.at(-1).content,
  joined: joined.at(-1),
  found: found.some((each) => each.thread_id === thread.thread_id),
  written: afterwards.at(-1),
  removed,
  forked: await contents(),
  refused,
  assistants: (await client.assistants.search({})).map((each) => each.assistant_id),
}));
