// Puts the page together: the composer, the settings, the key dialog and the live panel.
import { ApiError, apiKey, getJson, setApiKey } from "./api.js";
import { Chat } from "./chat.js";
import { element } from "./element.js";
import { MetricsPanel } from "./metrics.js";

const find = (id) => document.getElementById(id);
const prompt = find("prompt");

// One dialog, however many requests were refused. Resolves to whether a key was entered. `refusal`: what the server
// says of the key that it had, if any.
let asking;
function askForKey(refusal) {
  asking ??= new Promise((resolve) => {
    const dialog = find("key-dialog");
    find("key-error").textContent = refusal;
    find("key-error").hidden = !apiKey();
    let isGiven = false;
    find("key").value = "";
    find("key-form").onsubmit = (event) => {
      event.preventDefault();
      setApiKey(find("key").value);
      isGiven = true;
      dialog.close();
    };
    find("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      asking = undefined;
      if (isGiven) panel.wake();
      resolve(isGiven);
    };
    dialog.showModal();
  });
  return asking;
}

// A field that is left empty is the server's default.
function settings() {
  const fields = { system: find("system").value.trim() };
  if (find("model").value) fields.model = find("model").value;
  const numbers = { temperature: "temperature", max_completion_tokens: "max-tokens", seed: "seed" };
  for (const [name, id] of Object.entries(numbers)) {
    if (find(id).value !== "") fields[name] = find(id).valueAsNumber;
  }
  return fields;
}

async function loadModels() {
  for (;;) {
    try {
      const { data } = await getJson("v1/models");
      const options = data.map(({ id }) => element("option", { value: id, textContent: id }));
      find("model").replaceChildren(...options);
      find("model").disabled = data.length < 2;
      document.title = `${data[0]?.id ?? "no model"} · millrace`;
      return;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401 && (await askForKey(error.message))) continue;
      find("model").replaceChildren(element("option", { value: "", textContent: "model unknown" }));
      return;
    }
  }
}

async function showVersion() {
  try {
    find("version").textContent = `millrace ${(await getJson("version")).version}`;
  } catch {
    // The page is as useful without.
  }
}

function fitPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight}px`;
}

const chat = new Chat({
  list: find("messages"),
  scroller: find("scroller"),
  welcome: find("welcome"),
  settings,
  askForKey,
  onBusy(isBusy) {
    find("send").hidden = isBusy;
    find("stop").hidden = !isBusy;
    if (!isBusy && document.activeElement === document.body) prompt.focus();
  },
});

async function send() {
  const text = prompt.value.trim();
  const invalid = document.querySelector("#settings :invalid");
  if (invalid) {
    showPanel(true);
    invalid.reportValidity();
    return;
  }
  if (!text || chat.isBusy) return;
  if (!find("model").value) await loadModels();
  prompt.value = "";
  fitPrompt();
  prompt.focus();
  await chat.send(text);
}

function newChat() {
  chat.reset();
  prompt.focus();
}

function showPanel(isShown) {
  document.body.classList.toggle("without-panel", !isShown);
  find("panel-toggle").setAttribute("aria-expanded", String(isShown));
  panel.wake();
}

const isPanelShown = () => !document.body.classList.contains("without-panel");
const panel = new MetricsPanel({ box: find("tiles"), state: find("live-state"), isShown: isPanelShown });

find("composer").onsubmit = (event) => {
  event.preventDefault();
  send();
};
find("settings").onsubmit = (event) => event.preventDefault();
prompt.oninput = fitPrompt;
prompt.onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
};
find("stop").onclick = () => chat.stop();
find("new-chat").onclick = newChat;
find("panel-toggle").onclick = () => showPanel(!isPanelShown());
document.onkeydown = (event) => {
  if (event.key === "Escape" && !find("key-dialog").open) chat.stop();
  if (event.key?.toLowerCase() === "o" && event.ctrlKey && event.shiftKey) {
    event.preventDefault();
    newChat();
  }
};

find("base-url").textContent = new URL("v1", document.baseURI).href;
if (matchMedia("(max-width: 60rem)").matches) showPanel(false);
await loadModels();
showVersion();
