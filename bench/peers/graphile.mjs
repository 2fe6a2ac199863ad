// Runs graphile-worker until standard input ends: each job sends a signed webhook. Its folder has graphile-worker.
import { createHmac } from "node:crypto";
import http from "node:http";
import { createRequire } from "node:module";

const { DIR, DATABASE, URL, SECRET, JOBS } = process.env;
const { Logger, run, runMigrations } = createRequire(`${DIR}/`)("graphile-worker");
if (!URL) {
  await runMigrations({ connectionString: DATABASE });
  process.exit(0);
}
const key = Buffer.from(SECRET.replace(/^whsec_/, ""), "base64");
const agent = new http.Agent({ keepAlive: true, maxSockets: +JOBS });

function send({ id, body }) {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return new Promise((resolve, reject) => {
    const request = http.request(URL, {
      method: "POST",
      agent,
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${signature}`,
      },
    }, (response) => {
      response.resume();
      response.on("end", () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const runner = await run({
  connectionString: DATABASE,
  concurrency: +JOBS,
  maxPoolSize: +JOBS,
  pollInterval: 100,
  noHandleSignals: true,
  logger: new Logger(() => () => {}), // it prints a line for each job
  preset: { worker: { completeJobBatchDelay: 0, localQueue: { size: +JOBS + 1 } } },
  taskList: { send },
});
process.stdin.on("end", () => runner.stop());
process.stdin.resume();
await runner.promise;
