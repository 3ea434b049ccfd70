// Chat: what is written goes to the API of conversations; what is shown comes as HTML, by events.
import { ages, base, fill, reason, say, send, toast, unanswered } from "./page.js";

const chat = document.getElementById("chat");
const messages = document.getElementById("messages");
const scroller = document.getElementById("main");
const composer = document.getElementById("composer");
const text = document.getElementById("text");
const stop = document.getElementById("stop");
const typing = document.getElementById("typing");
const coarse = matchMedia("(pointer: coarse)");
const api = `${base}/api/conversations/${chat.dataset.chat}`;
const draftOf = (name) => `antler-draft-${name}`;
const [owner] = chat.dataset.chat.split("-"); // the next one who signs in here has drafts of their own
let draftKey = draftOf(chat.dataset.fresh === "yes" && !location.pathname.endsWith(chat.dataset.chat) ? `new-${owner}` : chat.dataset.chat);

// ---- Where the reader is: at the end the page follows what grows, elsewhere it stays.
let following = true;
scroller.addEventListener("scroll", () => {
  following = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
}, { passive: true });
function follow(force = false) {
  if (force || following) scroller.scrollTop = scroller.scrollHeight;
}
messages.addEventListener("load", () => follow(), true); // pictures

/** Where there is a keyboard; on a phone it would only cover the page. */
function focusText() {
  if (!coarse.matches) text.focus({ preventScroll: true });
}

// ---- At work or not: the three dots stand where nothing of an answer is seen yet, the button stops.
let waiting = chat.dataset.working === "yes";
function showWorking() {
  const growing = messages.querySelector('[data-final="no"]') !== null;
  typing.hidden = !waiting || growing;
  stop.hidden = !(waiting || growing);
  chat.setAttribute("aria-busy", String(growing));
}

// ---- What comes
function put(html, id) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const fresh = holder.content.firstElementChild;
  const known = document.getElementById(id);
  if (known) {
    if (known.querySelector("details[open]")) fresh.querySelector("details")?.setAttribute("open", "");
    known.replaceWith(fresh);
  } else {
    messages.append(fresh);
  }
  ages(fresh);
  return known === null;
}

let source = null;
let newest = chat.dataset.after; // the event up to which this page knows all
let lost = null;
const kinds = new Map();
const on = (kind, act) => kinds.set(kind, (event) => {
  newest = event.lastEventId || newest;
  act(JSON.parse(event.data));
  showWorking();
  follow();
});

on("state", (state) => {
  messages.innerHTML = state.html;
  waiting = state.working;
  ages(messages);
  begun();
});
on("message", (message) => {
  const isNew = put(message.html, message.id);
  const element = document.getElementById(message.id);
  if (element.matches(".person")) {
    waiting = true;
    following = true;
    begun();
  } else if (message.final) {
    waiting = false;
    announce(element);
    refreshList();
  }
  if (isNew && element.matches(".asks")) element.querySelector("button")?.scrollIntoView({ block: "nearest" });
});
on("grow", (change) => {
  const element = document.getElementById(change.id);
  if (!element) return;
  const prose = element.querySelector(".prose");
  while (prose.children.length > change.from) prose.lastElementChild.remove();
  for (const html of change.html) {
    const piece = document.createElement("div");
    piece.className = "piece";
    piece.innerHTML = html;
    prose.append(piece);
  }
  const status = element.querySelector(".status");
  if (status.dataset.shown !== change.status) {
    status.innerHTML = change.status;
    status.dataset.shown = change.status;
  }
});
on("removed", (change) => document.getElementById(change.id)?.remove());
on("typing", () => { waiting = true; });
on("acknowledged", (change) => {
  if (change.text && pressed.delete(change.press)) toast(change.text);
});
/** Only while somebody looks at the page, then from where it was: browsers have six connections for all tabs of a site. */
function connect() {
  source?.close();
  if (document.hidden) return;
  source = new EventSource(`${base}/c/${chat.dataset.chat}/events?after=${encodeURIComponent(newest)}`);
  for (const [kind, act] of kinds) source.addEventListener(kind, act);
  source.addEventListener("open", () => {
    lost?.remove();
    lost = null;
  });
  source.addEventListener("error", () => {
    lost ??= toast(say("offline"), "bad stays");
    if (source.readyState === EventSource.CLOSED) reopen(false);
  });
}
document.addEventListener("visibilitychange", connect);
connect();

/** Not a broken line but a refusal, perhaps a proxy's while the gateway starts: the page is loaded again once that works.
 * Who is not signed in any more is led to the way in. */
async function reopen(waited) {
  const answer = await fetch(`${base}/api/me`).catch(() => null);
  if (answer?.status === 401 || (waited && answer?.ok)) location.reload();
  else setTimeout(reopen, 5000, true);
}

/** Tells screen readers an answer once it is whole, and no word of it before. */
function announce(element) {
  const said = element.querySelector(".prose")?.innerText.trim();
  if (said) document.getElementById("announce").textContent = said.length > 600 ? say("answer_arrived") : said;
}

/** The first message of a new chat makes it one that has an address. */
function begun() {
  document.querySelector(".welcome").hidden = messages.childElementCount > 0;
  if (chat.dataset.fresh !== "yes" || messages.childElementCount === 0) return;
  chat.dataset.fresh = "no";
  keep("");
  draftKey = draftOf(chat.dataset.chat);
  keep();
  document.getElementById("actions").hidden = false;
  history.replaceState(null, "", `${base}/c/${chat.dataset.chat}`);
  document.querySelector('.preferences [name="next"]').value = `/c/${chat.dataset.chat}`;
}

let listing = 0;
function refreshList() {
  clearTimeout(listing);
  listing = setTimeout(async () => {
    const search = document.querySelector(".search [name=q]").value;
    const answer = await fetch(`${base}/chats?${new URLSearchParams({ chat: chat.dataset.chat, q: search })}`).catch(() => null);
    if (!answer?.ok) return;
    fill(document.getElementById("chats"), await answer.text());
    const title = document.querySelector("#chats [aria-current]")?.dataset.title;
    if (!title) return;
    document.getElementById("title").textContent = title;
    document.title = `${title} · Antler`;
  }, 300);
}

// ---- What is written
/** Also where the page is not served over TLS, and browsers give no UUIDs. */
const newId = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
const attached = new Map(); // element -> upload id
let sending = false;

function resize() {
  text.rows = Math.min(12, text.value.split("\n").length);
  while (text.rows < 12 && text.scrollHeight > text.clientHeight) text.rows += 1; // lines that are broken, in browsers without field-sizing
}
function keep(draft = text.value) {
  try { draft ? sessionStorage.setItem(draftKey, draft) : sessionStorage.removeItem(draftKey); } catch { /* no room: nothing is lost but the draft */ }
}
text.addEventListener("input", () => { unsent.clear(); resize(); keep(); });
text.addEventListener("keydown", (event) => {
  // Enter that ends a Chinese or Japanese word sends nothing (229: in Safari); on a phone it makes a new line.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229 || coarse.matches) return;
  event.preventDefault();
  composer.requestSubmit();
});
composer.addEventListener("submit", async (event) => {
  event.preventDefault();
  const files = [...attached.keys()];
  const uploads = [...attached.values()];
  if (sending || uploads.includes(null) || (!text.value.trim() && !uploads.length)) return;
  const written = text.value;
  sending = true;
  if (await post(written, uploads)) {
    // What was added meanwhile goes with the next message.
    if (text.value.startsWith(written)) text.value = text.value.slice(written.length);
    for (const item of files) unlist(item);
    resize();
    keep();
  }
  sending = false;
  focusText();
});

const unsent = new Map(); // what failed, as it was sent, with its id: it may have arrived, and the same id again is the same message
async function post(words, uploads = []) {
  const message = { text: words, attachments: uploads };
  const sent = JSON.stringify(message);
  const id = unsent.get(sent) ?? newId();
  const body = JSON.stringify({ ...message, client_id: id });
  const answer = await send(`${api}/messages`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  if (answer) unsent.delete(sent);
  else unsent.set(sent, id);
  return answer !== null;
}

stop.addEventListener("click", () => post("/stop"));

// ---- Presses
const pressed = new Set();
document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-press], [data-say], [data-branch], [data-rename], [data-dismiss], [data-older]");
  if (!target) return;
  if (target.dataset.press) {
    const buttons = [...target.closest(".choices").querySelectorAll("button")];
    const id = newId();
    for (const each of buttons) each.disabled = true;
    target.setAttribute("aria-pressed", "true");
    pressed.add(id);
    focusText();
    const body = JSON.stringify({ message_id: target.closest(".message").id, data: target.dataset.press, client_id: id });
    const answer = await send(`${api}/presses`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
    // What was decided changes the message; where it does not, the buttons are good for another press.
    setTimeout(() => { for (const each of buttons) each.disabled = false; }, answer ? 1500 : 0);
  } else if (target.dataset.say) {
    target.closest("details[data-popup]")?.removeAttribute("open");
    await post(target.dataset.say);
    focusText();
  } else if (target.dataset.branch) {
    await branch(target);
  } else if ("rename" in target.dataset) {
    target.closest("details").open = false;
    document.getElementById("rename").showModal();
    document.getElementById("new-title").select();
  } else if ("dismiss" in target.dataset) {
    target.closest("dialog").close();
  } else if (target.dataset.older) {
    const answer = await send(`${base}/c/${chat.dataset.chat}/earlier?before=${encodeURIComponent(target.dataset.older)}`);
    if (!answer) return;
    const from = scroller.scrollHeight - scroller.scrollTop;
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    for (const known of holder.content.querySelectorAll("[id]")) if (document.getElementById(known.id)) known.remove();
    target.closest(".older").replaceWith(holder.content);
    ages(messages);
    scroller.scrollTop = scroller.scrollHeight - from;
  }
});

/** A chat of its own that begins with this one; a message that is edited is taken along as what is to be written. */
async function branch(button) {
  const message = button.closest(".message");
  button.disabled = true;
  const answer = await send(`${base}/c/${chat.dataset.chat}/branch`, { method: "POST", body: new URLSearchParams({ message: message.id }) });
  button.disabled = false;
  if (!answer) return;
  const made = await answer.json();
  if (button.dataset.branch === "edit") {
    const uploads = [...message.querySelectorAll("[data-upload]")].map((each) => [each.dataset.name, each.dataset.upload]);
    try {
      sessionStorage.setItem(draftOf(made.chat), message.querySelector(".bubble").textContent);
      sessionStorage.setItem(`${draftOf(made.chat)}-files`, JSON.stringify(uploads));
    } catch { /* no room: it can be copied by hand */ }
  }
  location.assign(made.address);
}
document.querySelector("[data-rename-form]")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  if (!(await send(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }))) return;
  form.closest("dialog").close();
  refreshList();
});

// ---- Files: picked, dropped, pasted
const list = document.getElementById("attached");
const picker = document.getElementById("files");
/** Shows a file that goes with the next message. kept: the id of its upload, null while it is on its way. */
function listed(name, kept) {
  const item = document.createElement("li");
  const label = document.createElement("span");
  const remove = document.createElement("button");
  item.className = kept ? "file" : "file busy";
  label.className = "clip";
  label.textContent = name;
  remove.type = "button";
  remove.className = "remove";
  remove.textContent = "×";
  remove.setAttribute("aria-label", say("remove", { name }));
  remove.addEventListener("click", () => unlist(item));
  item.append(label, remove);
  list.append(item);
  list.hidden = false;
  attached.set(item, kept);
  return item;
}
function unlist(item) {
  attached.delete(item);
  item.remove();
  list.hidden = attached.size === 0;
}
function attach(files) {
  for (const file of files) {
    if (attached.size >= picker.dataset.most) {
      toast(say("too_many_files", { most: picker.dataset.most }), "bad");
      break;
    }
    const item = listed(file.name, null);
    if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
      const picture = document.createElement("img");
      picture.src = URL.createObjectURL(file);
      picture.alt = "";
      item.prepend(picture);
    }
    upload(file).then((kept) => {
      item.classList.remove("busy");
      if (!kept) unlist(item);
      else if (attached.has(item)) attached.set(item, kept.id);
    });
  }
}
async function upload(file, voice = false) {
  const csrf = document.querySelector('meta[name="csrf"]').content;
  const headers = { "X-Antler-CSRF": csrf, "Content-Type": file.type || "application/octet-stream" };
  const name = [...file.name].slice(-200).join(""); // of whole characters
  try {
    const answer = await fetch(`${base}/api/uploads?name=${encodeURIComponent(name)}${voice ? "&voice=true" : ""}`, { method: "POST", body: file, headers });
    if (answer.ok) return await answer.json();
    toast(say("upload_failed", { name: file.name, why: await reason(answer) }), "bad");
  } catch {
    toast(say("upload_failed", { name: file.name, why: await unanswered(file) }), "bad");
  }
  return null;
}
document.addEventListener("recorded", async (event) => {
  const kept = await upload(event.detail.file, true);
  event.detail.sent(kept !== null && await post("", [kept.id]));
});
picker.addEventListener("change", (event) => {
  attach([...event.target.files]);
  event.target.value = "";
  focusText();
});
text.addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  attach(files);
});
let dragged = 0;
const drop = document.getElementById("drop");
document.addEventListener("dragenter", (event) => {
  if (event.dataTransfer.types.includes("Files")) { dragged += 1; drop.classList.add("shown"); }
});
document.addEventListener("dragleave", () => { dragged = Math.max(0, dragged - 1); if (!dragged) drop.classList.remove("shown"); });
/** Words that are dragged into a field, which the browser puts there. */
const inserts = (event) => event.target.matches?.("textarea, input") && !event.dataTransfer.types.includes("Files");
document.addEventListener("dragover", (event) => { if (!inserts(event)) event.preventDefault(); });
document.addEventListener("drop", (event) => {
  if (inserts(event)) return;
  event.preventDefault();
  dragged = 0;
  drop.classList.remove("shown");
  attach([...event.dataTransfer.files]);
});

// ---- The start
try {
  text.value = sessionStorage.getItem(draftKey) ?? "";
  for (const [name, kept] of JSON.parse(sessionStorage.getItem(`${draftKey}-files`) ?? "[]")) listed(name, kept);
  sessionStorage.removeItem(`${draftKey}-files`);
} catch { /* none is kept */ }
resize();
showWorking();
if (messages.childElementCount) {
  follow(true);
  document.fonts?.ready.then(() => follow());
}
focusText();
