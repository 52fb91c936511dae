// Requests to the service: JSON in and out, errors as one line.

export class Unauthorised extends Error {}

let secret = null;
try { secret = sessionStorage.getItem("token"); } catch { /* storage is switched off */ }

export function useToken(token) {
  secret = token;
  try { sessionStorage.setItem("token", token); } catch { /* kept for this page only */ }
}

export async function ask(path, body, signal) {
  const headers = secret ? { Authorization: `Bearer ${secret}` } : {};
  const options = { headers, signal };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("The service does not answer. Is labelwright still running?"), { isOffline: true });
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.status === 401) throw new Unauthorised(secret ? "The access token was refused." : "Access token needed.");
  if (!response.ok) throw Object.assign(new Error(answer?.error ?? `The service answered with status ${response.status}.`), { answer });
  if (answer === null) throw new Error("The answer of the service is not JSON.");
  return answer;
}

export const models = () => ask("models");
export const tag = (body, signal) => ask("tag", body, signal);
export const explain = (body, signal) => ask("explain", body, signal);
