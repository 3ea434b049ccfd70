// Voice messages: the microphone records, and what was said goes as a voice message. chat.js sends it ("recorded").
import { say, toast } from "./page.js";

const TYPES = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"];
const record = document.getElementById("record");
const bar = document.getElementById("recording");
const finish = document.getElementById("finish");
const elapsed = document.getElementById("elapsed");
const level = document.getElementById("level");
const most = Number(bar.dataset.minutes) * 60_000;
let recorder = null; // while it records
let voice = null; // what was recorded and is not sent yet
let clock = 0;

// Browsers give a microphone only to pages that came safely: over TLS, or from this machine.
if (isSecureContext && navigator.mediaDevices?.getUserMedia && window.MediaRecorder) record.hidden = false;

record.addEventListener("click", async () => {
  record.disabled = true;
  let stream = null;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    begin(stream);
  } catch (error) {
    for (const track of stream?.getTracks() ?? []) track.stop(); // or the microphone stays open
    toast(say("no_microphone", { why: say(error.name === "NotAllowedError" ? "microphone_refused" : "microphone_missing") }), "bad");
  } finally {
    record.disabled = false;
  }
});

function begin(stream) {
  const type = TYPES.find((each) => MediaRecorder.isTypeSupported(each));
  const pieces = [];
  const loudness = measure(stream);
  const own = new MediaRecorder(stream, type ? { mimeType: type } : {});
  own.addEventListener("dataavailable", (event) => pieces.push(event.data));
  own.addEventListener("stop", () => {
    for (const track of stream.getTracks()) track.stop();
    loudness.close();
    clearInterval(clock);
    if (recorder !== own) return; // it was dropped
    recorder = null;
    const plain = own.mimeType.split(";")[0];
    voice = new File(pieces, `voice.${plain.split("/")[1].replace("mp4", "m4a")}`, { type: plain });
    bar.classList.remove("live");
    if (own.sends) deliver();
  });
  own.start();
  recorder = own;
  voice = null;
  const from = Date.now();
  tick();
  clock = setInterval(tick, 100);
  arrange(true);
  finish.focus();

  function tick() {
    const seconds = Math.floor((Date.now() - from) / 1000);
    const shown = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    if (elapsed.textContent !== shown) elapsed.textContent = shown;
    level.style.setProperty("--level", loudness.now());
    if (Date.now() - from >= most && own.state === "recording") own.stop(); // kept, to be sent or dropped
  }
}

/** How loud it is now, from 0 to 1. */
function measure(stream) {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  const wave = new Uint8Array(analyser.fftSize);
  context.createMediaStreamSource(stream).connect(analyser);
  const now = () => {
    analyser.getByteTimeDomainData(wave);
    return Math.min(1, wave.reduce((most, value) => Math.max(most, Math.abs(value - 128)), 0) / 64).toFixed(2);
  };
  return { now, close: () => context.close() };
}

function arrange(recording) {
  bar.hidden = !recording;
  bar.classList.toggle("live", recording);
  document.getElementById("writing").hidden = recording;
}

/** Sends what was recorded; where that fails it is kept, for another try. */
function deliver() {
  finish.disabled = true;
  const sent = (done) => {
    finish.disabled = false;
    if (!done) return;
    voice = null;
    arrange(false);
    document.getElementById("text").focus({ preventScroll: true });
  };
  document.dispatchEvent(new CustomEvent("recorded", { detail: { file: voice, sent } }));
}

finish.addEventListener("click", () => {
  if (voice) deliver();
  else if (recorder) {
    recorder.sends = true;
    recorder.stop();
  }
});
document.getElementById("discard").addEventListener("click", () => {
  const dropped = recorder;
  recorder = null;
  voice = null;
  dropped?.stop();
  arrange(false);
  record.focus();
});
