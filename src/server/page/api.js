// Talks to the server that this page came from. All addresses are relative, so a proxy's prefix is kept.
import { readEvents } from "./sse.js";

const KEY_NAME = "millrace-api-key";

// `status`: of HTTP; 0 where no whole answer came.
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// The key lives as long as the tab; where storage is blocked, as long as the page.
let keyOfPage = "";
export function apiKey() {
  try {
    return sessionStorage.getItem(KEY_NAME) ?? keyOfPage;
  } catch {
    return keyOfPage;
  }
}
export function setApiKey(key) {
  keyOfPage = key;
  try {
    sessionStorage.setItem(KEY_NAME, key);
  } catch {
    // The page still has it.
  }
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  let message = "";
  try {
    message = JSON.parse(text).error.message;
  } catch {
    message = text.slice(0, 300);
  }
  return new ApiError(message || `HTTP ${response.status} ${response.statusText}`, response.status);
}

async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (apiKey()) headers.set("Authorization", `Bearer ${apiKey()}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server cannot be reached", 0);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function getJson(path) {
  return (await request(path)).json();
}

export async function getText(path, signal) {
  return (await request(path, { signal })).text();
}

// The chunks of a chat completion as they come. Throws an AbortError once `signal` is set off, else an ApiError
// for whatever kept the answer from being whole.
export async function* streamChat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  try {
    for await (const data of readEvents(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message, 0);
      yield chunk;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError(error instanceof SyntaxError ? "the answer cannot be read" : "the connection was lost", 0);
  }
  throw new ApiError("the answer broke off", 0);
}
