// What every page does: the menu on narrow screens, pop-ups, toasts, copying, forms that stay on the page, regions that
// keep themselves up to date. Everything is asked for by attributes (docs/page.md names them).

export const base = document.body.dataset.base;
const words = JSON.parse(document.body.dataset.words);
const csrf = document.querySelector('meta[name="csrf"]').content;
const root = document.documentElement;

/** A text of the page's language, with its marks filled. */
export function say(key, values = {}) {
  return words[key].replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** A short message at the bottom; kind: "bad" for failures, "stays" until it is removed. */
export function toast(text, kind = "") {
  const note = document.createElement("div");
  note.className = `toast ${kind}`;
  note.textContent = text;
  document.getElementById("toasts").append(note);
  if (!kind.includes("stays")) setTimeout(() => note.remove(), kind === "bad" ? 8000 : 4000);
  return note;
}

/** fetch with the CSRF token. Resolves to the response, or to null when it failed and was told in a toast. */
export async function send(url, options = {}) {
  let answer;
  try {
    answer = await fetch(url, { ...options, headers: { "X-Antler-CSRF": csrf, Accept: "application/json, text/html", ...options.headers } });
  } catch {
    toast(await unanswered(options.body), "bad");
    return null;
  }
  if (answer.ok) return answer;
  toast(await reason(answer), "bad");
  return null;
}

/** Why there was no answer to a request, for people: its file may be a folder, or have changed since it was chosen. */
export async function unanswered(body) {
  const readable = !(body instanceof Blob) || await body.slice(0, 1).arrayBuffer().then(() => true, () => false);
  return readable ? say("unreachable") : say("unreadable");
}

/** Why a request was refused, for people. */
export async function reason(answer) {
  if (answer.status === 401) return say("signed_out");
  try {
    const error = (await answer.json()).error;
    if (error.code === "csrf") return say("signed_out"); // and in again, in another tab
    const known = `problem_${error.code}`;
    return known in words ? say(known, error) : error.message || say("refused");
  } catch {
    return say("refused");
  }
}

/** Replaces what is inside an element, unless somebody is typing there. */
export function fill(element, html) {
  const typing = element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
  if (typing || element.dataset.shown === html) return;
  const opened = [...element.querySelectorAll("details[open][id]")].map((each) => each.id);
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.innerHTML = html;
  element.dataset.shown = html;
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
  ages(element);
}

// ---- The menu on narrow screens
const sidebar = document.getElementById("sidebar");
let opener = null;

function openSidebar(open) {
  root.classList.toggle("sidebar-open", open);
  document.querySelector(".content").inert = open;
  opener?.setAttribute("aria-expanded", String(open));
  if (open) sidebar.querySelector("a, button")?.focus();
  else opener?.focus();
}

/** Also where the page is not served over TLS, and browsers give no clipboard. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// ---- Clicks
document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-sidebar], [data-copy], [data-confirm], .spoiler");
  for (const popup of document.querySelectorAll("details[data-popup][open]")) {
    if (!popup.contains(event.target)) popup.open = false;
  }
  if (!target) return;
  if (target.dataset.sidebar) {
    opener = document.querySelector('[data-sidebar="open"]');
    openSidebar(target.dataset.sidebar === "open");
  } else if ("copy" in target.dataset) {
    const source = target.dataset.copy ? document.getElementById(target.dataset.copy) : target.closest(".code-block").querySelector("code");
    await copyText(target.dataset.copy ? source.innerText : source.textContent);
    if ("toast" in target.dataset) { toast(say("copied")); return; }
    const label = target.querySelector(".label") ?? target;
    const before = label.textContent;
    label.textContent = say("copied");
    setTimeout(() => { label.textContent = before; }, 1600);
  } else if (target.matches(".spoiler")) {
    target.classList.add("shown");
    for (const name of ["role", "tabindex", "aria-label"]) target.removeAttribute(name);
  }
});

document.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches(".spoiler:not(.shown)")) {
    event.preventDefault();
    event.target.click();
  }
  if (event.key !== "Escape") return;
  if (root.classList.contains("sidebar-open")) openSidebar(false);
  for (const popup of document.querySelectorAll("details[data-popup][open]")) {
    popup.open = false;
    popup.querySelector("summary").focus();
  }
});

/** Asks in a dialog. Resolves to whether it was confirmed. */
export function confirmed(question, danger = true) {
  const dialog = document.createElement("dialog");
  const text = document.createElement("p");
  text.id = "question";
  text.textContent = question;
  dialog.setAttribute("aria-labelledby", "question");
  const form = document.createElement("form");
  form.method = "dialog";
  form.className = "actions";
  for (const [value, look] of [["cancel", "button"], ["confirm", danger ? "button danger" : "button primary"]]) {
    const button = document.createElement("button");
    button.value = value;
    button.className = look;
    button.textContent = say(value);
    form.append(button);
  }
  dialog.append(text, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "confirm");
      dialog.remove();
    });
  });
}

// What was said by the page that led here.
const SAID = "antler-said";
const saidBefore = sessionStorage.getItem(SAID);
sessionStorage.removeItem(SAID);
if (saidBefore) toast(decodeURIComponent(saidBefore));

// ---- Forms: data-async sends without leaving the page; data-confirm asks first; data-target is what the answer fills.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  const button = event.submitter;
  const question = button?.dataset.confirm ?? form.dataset.confirm;
  const stays = "async" in form.dataset;
  if (!stays && !question) return;
  event.preventDefault();
  if (question && !(await confirmed(question))) return;
  const body = new URLSearchParams(new FormData(form, button));
  if (!stays) {
    if (button?.name) {
      const chosen = document.createElement("input");
      Object.assign(chosen, { type: "hidden", name: button.name, value: button.value });
      form.append(chosen);
    }
    form.submit();
    return;
  }
  if (button) button.disabled = true;
  const action = button?.getAttribute("formaction") ?? form.action;
  const answer = form.dataset.upload ? await upload(form)
    : form.method === "get" ? await send(`${action}?${body}`) : await send(action, { method: "POST", body });
  if (button) button.disabled = false;
  if (!answer) return;
  const said = answer.headers.get("X-Antler-Toast") ?? encodeURIComponent(form.dataset.done ?? "");
  const place = answer.headers.get("X-Antler-Location") ?? form.dataset.then;
  if (place) {
    try { sessionStorage.setItem(SAID, said); } catch { /* no room: it stays unsaid */ }
    location.assign(place);
    return;
  }
  if (said) toast(decodeURIComponent(said));
  const region = form.dataset.target ? document.querySelector(form.dataset.target) : form.closest("[data-region]");
  if (!region) return;
  if (answer.headers.get("Content-Type")?.startsWith("text/html")) {
    if (region.contains(document.activeElement)) document.activeElement.blur();
    fill(region, await answer.text());
    if (region.getBoundingClientRect().top > innerHeight - 80) region.scrollIntoView({ block: "nearest" });
  } else if (region.dataset.region) {
    refresh(region);
  }
});

/** Sends the one file of a form, as the body; its other fields stand in the address. */
function upload(form) {
  const { files: [file] } = form.elements.file;
  const fields = new URLSearchParams(new FormData(form));
  for (const name of ["file", "csrf"]) fields.delete(name);
  return send(`${form.dataset.upload}${encodeURIComponent(file.name)}?${fields}`, { method: "PUT", body: file });
}

// Searching while typing: <form data-async data-live-search>.
let pause = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-live-search]");
  if (!form) return;
  clearTimeout(pause);
  pause = setTimeout(() => form.requestSubmit(), 200);
});

// ---- Regions: <section data-region="URL" data-every="5"> asks again while the page is looked at.
async function refresh(region) {
  if (document.hidden || region.dataset.asking) return;
  region.dataset.asking = "yes";
  try {
    const answer = await fetch(region.dataset.region, { headers: { Accept: "application/json, text/html" } });
    if (answer.status === 401) location.reload();
    else if (answer.ok) fill(region, await answer.text());
    region.classList.toggle("stale", !answer.ok);
  } catch {
    region.classList.add("stale");
  } finally {
    delete region.dataset.asking;
  }
}
for (const region of document.querySelectorAll("[data-region][data-every]")) {
  setInterval(() => refresh(region), Number(region.dataset.every) * 1000);
  document.addEventListener("visibilitychange", () => refresh(region));
}

// ---- Times: <time datetime data-age> tells how long ago it was; all show the reader's own time zone on hover.
const relative = new Intl.RelativeTimeFormat(root.lang, { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat(root.lang, { dateStyle: "medium", timeStyle: "short" });
const STEPS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [604800, "day", 86400], [Infinity, "week", 604800]];

export function ages(within = document) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.title = absolute.format(at);
    if (!("age" in time.dataset)) {
      time.textContent = absolute.format(at);
      continue;
    }
    const seconds = (at - Date.now()) / 1000;
    const [, unit, size] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
    time.textContent = relative.format(Math.round(seconds / size), unit);
  }
}
ages();
setInterval(() => ages(), 20000);
