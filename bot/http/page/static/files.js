// Files, and why a message was answered so, beside the chat: a card or a button opens a pane, or on narrow screens a sheet. The address keeps what is open.
import { ages, base, send } from "./page.js";

const ALL = "all";
const WHY = "why.";
const side = document.getElementById("side");
const chat = document.getElementById("chat").dataset.chat;
const content = document.querySelector(".content");
const sidebar = document.getElementById("sidebar");
const narrow = matchMedia("(width < 75rem)");
let opener = null; // what opened it, to go back to
let shown = "";

const wanted = () => new URLSearchParams(location.search).get("file")?.match(/^(?:why\.)?[\w-]+$/)?.[0] ?? "";
function addressOf(file) {
  const query = new URLSearchParams(location.search);
  if (file) query.set("file", file);
  else query.delete("file");
  return `${location.pathname}${query.size ? `?${query}` : ""}`;
}

/** Fills the pane with a file, or the list; "" closes it. */
async function show(file, focus = true) {
  if (!file && side.hidden) return;
  shown = file;
  if (!file) {
    side.hidden = true;
    side.replaceChildren();
    arrange();
    back().focus({ preventScroll: true });
    return;
  }
  const path = file === ALL ? "files" : file.startsWith(WHY) ? `why/${file.slice(WHY.length)}` : `files/${file}`;
  side.setAttribute("aria-busy", "true");
  const answer = await send(`${base}/c/${chat}/${path}`);
  side.removeAttribute("aria-busy");
  if (shown !== file) return; // another one was asked for meanwhile
  if (!answer) {
    if (side.hidden) { shown = ""; history.replaceState(null, "", addressOf("")); }
    return;
  }
  side.innerHTML = await answer.text();
  side.hidden = false;
  ages(side);
  arrange();
  if (focus || narrow.matches) document.getElementById("side-title").focus({ preventScroll: true });
}

/** Over the chat it is a dialog, and what lies below cannot be reached. */
function arrange() {
  const over = !side.hidden && narrow.matches;
  content.inert = over;
  sidebar.inert = over;
  for (const [name, value] of [["role", "dialog"], ["aria-modal", "true"]]) {
    if (over) side.setAttribute(name, value);
    else side.removeAttribute(name);
  }
  document.querySelector("#actions [data-files]").setAttribute("aria-expanded", String(!side.hidden));
  for (const card of document.querySelectorAll("#messages [data-file]")) card.classList.toggle("open", card.dataset.file === shown);
}
narrow.addEventListener("change", arrange);

function back() {
  const again = opener?.dataset.file ? document.querySelector(`#messages [data-file="${CSS.escape(opener.dataset.file)}"]`) : opener;
  const there = again?.isConnected && again.checkVisibility() ? again : document.querySelector("#actions [data-files]");
  return there?.checkVisibility() ? there : document.getElementById("text");
}

function close() {
  if (history.state?.side) history.back();
  else {
    history.replaceState(null, "", addressOf(""));
    show("");
  }
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-file], [data-why], [data-files], [data-side-close]");
  if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if ("sideClose" in target.dataset) { close(); return; }
  const file = target.dataset.why ? WHY + target.dataset.why : target.dataset.file ?? ALL;
  if (!side.contains(target)) {
    if (file === shown) { close(); return; }
    opener = target;
  }
  if (shown) history.replaceState(history.state, "", addressOf(file));
  else history.pushState({ side: true }, "", addressOf(file));
  show(file);
});
// Before the listeners that close menus and dialogs: one key closes one thing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || side.hidden) return;
  if (document.querySelector("dialog[open], details[data-popup][open], .sidebar-open")) return;
  event.preventDefault();
  close();
}, true);
addEventListener("popstate", () => show(wanted()));
if (wanted()) show(wanted(), false);
