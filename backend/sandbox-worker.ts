// The program of a sandbox process (backend/query/sandbox/README.md): evaluates LogQL for the backend.
import { runLokiJob } from "./query/loki/jobs.ts";
import { serveJobs } from "./query/sandbox/serve-jobs.ts";

serveJobs(runLokiJob);
