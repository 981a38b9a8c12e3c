// The dialog that sets positions: it shows what would change, and then changes exactly that.
import { element as e } from "./elements.js";
import { ask } from "./ask.js";

const dialog = document.getElementById("positions");
const form = dialog.querySelector("form");
const { offsets, acceptNewTopic, acceptForeignRecords, force, reason, look, apply } = form.elements;
const plan = document.getElementById("plan");
let target = "";
let confirmed = null;
let done = () => {};

export function openPositions(address, remedy, whenDone) {
  [target, done] = [`${address}/positions`, whenDone];
  form.reset();
  offsets.value = remedy.offsets.join("\n");
  acceptNewTopic.checked = Boolean(remedy.acceptNewTopic);
  acceptForeignRecords.checked = Boolean(remedy.acceptForeignRecords);
  forget();
  dialog.showModal();
}

const body = () => ({
  offsets: offsets.value.split(/\s+/).filter(Boolean),
  acceptNewTopic: acceptNewTopic.checked,
  acceptForeignRecords: acceptForeignRecords.checked,
  force: force.checked,
  reason: reason.value || null,
});

function forget() {
  confirmed = null;
  apply.disabled = true;
  plan.replaceChildren();
}

function show(answer) {
  const rows = (answer.changes ?? []).map((one) => e("li", {}, one.text));
  const words = answer.applied ? "Set." : "This would change; nothing has changed yet.";
  plan.replaceChildren(
    e("p", { class: answer.error ? "bad" : "good" }, answer.error ?? words),
    e("ul", {}, ...rows),
  );
}

async function send(request) {
  look.disabled = apply.disabled = true;
  plan.replaceChildren(e("p", { class: "quiet" }, "Asking the clusters …"));
  try {
    const answer = await ask(target, request);
    show(answer);
    confirmed = answer.plan && !answer.applied ? { ...request, plan: answer.plan } : null;
    if (answer.applied) done();
  } catch (error) {
    show({ error: `the server does not answer (${error.message})` });
  } finally {
    look.disabled = false;
    apply.disabled = confirmed === null;
  }
}

look.addEventListener("click", () => send(body()));
apply.addEventListener("click", () => confirmed && send(confirmed));
form.addEventListener("input", forget);
