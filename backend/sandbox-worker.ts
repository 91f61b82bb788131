// The program of a sandbox process (backend/sandbox/README.md): evaluates LogQL for the backend.
import { runLokiJob } from "./loki/jobs.ts";
import { serveJobs } from "./sandbox/serve-jobs.ts";

serveJobs(runLokiJob);
